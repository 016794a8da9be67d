"""In which layouts an outlined call has its operands and results: row-major ones, those asked for, or the program's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xloom.errors import PassError
from xloom.hlo.shape import Layout, Shape, default_layout, tuple_shape

ROW_MAJOR = "row-major"
AS_IS = "as-is"
RESULT = "result"
"""What a call's one result is called; several are `result.0`, `result.1`, ..."""

_ENTRY = re.compile(r"\s*([\w.\-]+)\s*=\s*\{([\d,\s]*)\}\s*(?:,|$)")


@dataclass(frozen=True)
class CallLayouts:
    """The layout of each operand and result by name, from the fastest-varying dimension on; row-major for others."""

    as_is: bool = False
    asked: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> CallLayouts:
        """`row-major` (the same as an empty text), `as-is`, or HLO's layouts by name: `k={2,3,1,0},result={0,1}`."""
        if text in ("", ROW_MAJOR, AS_IS):
            return CallLayouts(text == AS_IS)
        asked: dict[str, tuple[int, ...]] = {}
        at = 0
        while at < len(text):
            found = _ENTRY.match(text, at)
            if found is None:
                hint = f'write {ROW_MAJOR}, {AS_IS}, or layouts by name: "k={{2,3,1,0}},{RESULT}={{0,1}}"'
                raise PassError(f"layouts={text!r} means nothing at {text[at:]!r}", hint=hint)
            asked[found[1]] = tuple(int(d) for d in found[2].split(",") if d.strip())
            at = found.end()
        return CallLayouts(False, asked)

    def of(self, name: str, shape: Shape) -> Shape:
        """The shape that the call has for an operand or result. Raises PassError when the layout asked for is none."""
        if self.as_is:
            return shape
        if shape.is_tuple:
            return tuple_shape([self.of(f"{name}.{k}", element) for k, element in enumerate(shape.elements)])
        if not shape.is_array:
            return shape
        order = self.asked.get(name, default_layout(shape.rank).minor_to_major)
        if sorted(order) != list(range(shape.rank)):
            raise PassError(
                f"the layout {{{','.join(map(str, order))}}} for {name} is none of {shape.to_text(False)}",
                hint=f"it has {shape.rank} dimensions",
            )
        layout = shape.layout or default_layout(shape.rank)
        if order == layout.minor_to_major and not layout.tiles:
            return shape
        return shape.with_layout(replace(layout, minor_to_major=order, tiles=()))

    def unknown(self, names: Sequence[str]) -> list[str]:
        """The names that are asked for and are none of `names`."""
        return [name for name in self.asked if name not in names]


def explicit(shape: Shape) -> Shape:
    """The same shape with a layout for each array."""
    if shape.is_tuple:
        return tuple_shape([explicit(element) for element in shape.elements])
    return shape.with_layout(_layout(shape)) if shape.is_array else shape


def _layout(shape: Shape) -> Layout:
    return shape.layout or default_layout(shape.rank)
