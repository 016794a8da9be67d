"""Types of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.dtype import DTYPES, DType
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.reduction.base import Reduction, Site, UnfitError, forget_signature
from xloom.reduction.size import plainness

_PLAIN = tuple(DTYPES[name] for name in ("pred", "s32", "f32"))


@dataclass(frozen=True)
class ElementTypes(Reduction):
    """Makes one type of elements a plainer one, everywhere: the numbers of both."""

    name: ClassVar[str] = "plainer types"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        found = {leaf.dtype for i in module.instructions for _, leaf in i.shape.leaves() if leaf.is_array}
        return [
            (old.value, new.value)
            for old in sorted(found, key=lambda dtype: dtype.value)
            for new in _PLAIN
            if plainness(new) < plainness(old)
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((old, new),) = sites
        by_value = {dtype.value: dtype for dtype in DTYPES.values()}
        forget_signature(module)
        for instruction in module.instructions:
            shape = instruction.shape
            instruction.shape = _retyped(shape, by_value[old], by_value[new])
            if instruction.opcode == "constant" and instruction.shape is not shape:
                if not shape.is_array or instruction.literal.elided:
                    raise UnfitError
                value = instruction.literal.value.astype(by_value[new].numpy)
                instruction.attrs["literal"] = Literal(instruction.shape, value)


def _retyped(shape: Shape, old: DType, new: DType) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_retyped(e, old, new) for e in shape.elements])
    if not shape.is_array or shape.dtype is not old:
        return shape
    if shape.is_dynamic:
        raise UnfitError
    return array_shape(new, shape.dims).with_layouts_of(shape)
