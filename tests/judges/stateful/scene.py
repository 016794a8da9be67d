"""Scenes of programs about state: which families they grow by, and how exact the state of their loops is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tests.judges.programs.generator  # noqa: F401  registers the families
from tests.judges.programs.scene import FAMILIES, MOST_ELEMENTS, Bits, Family, Scene, Value
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, tuple_shape

MOST_DEPTH = 3

_EXACT = {
    **{"unary": 3, "bit_counts": 1, "integer_arithmetic": 6, "shifts": 1, "logic": 2, "compare": 3, "select": 4},
    **{"clamp": 2, "convert": 2, "broadcast": 2, "reshape": 2, "transpose": 3, "slice_": 2, "pad": 1, "reverse": 2},
    **{"concatenate": 2, "iota": 1, "dynamic_slice": 2, "dynamic_update_slice": 2, "gather": 1, "scatter": 1},
    **{
        "scatter_set": 2,
        "sort": 3,
        "reduce": 2,
        "cumulative": 1,
        "complex_parts": 1,
        "map_": 0.5,
        "reduce_two": 0.7,
        "arg_extremum": 1,
        "topk": 0.3,
        "bitcast_convert": 0.5,
    },
}
_ROUNDED = {
    **_EXACT,
    **{"transcendental": 3, "float_arithmetic": 5, "float_powers": 0.5, "complex_arithmetic": 1, "fft": 1},
    **{"triangular_solve": 1, "cholesky": 0.5, "dot": 1.5, "reduce_window": 0.5, "convolution": 0.5},
    **{"complex_transcendental": 0.5, "batch_norm": 0.2},
}
_OF_STATE: list[tuple[Family, float]] = []
_CALLS: list[tuple[Family, float]] = []


def family(weight: float, calls: bool = False) -> Callable[[Callable[[StateScene], None]], Family]:
    """Registers a family of these programs alone; `calls`: of those that call code outside."""

    def register(function: Any) -> Family:
        (_CALLS if calls else _OF_STATE).append((function, weight))
        return function

    return register


@dataclass(frozen=True)
class Kind:
    """What a program is made of; `bits` is how exact what loops and branches hand on has to be."""

    bits: Bits
    calls: bool
    rounded: bool

    @property
    def families(self) -> tuple[list[Family], list[float]]:
        """The families, and how often each is chosen."""
        names = _ROUNDED if self.rounded else _EXACT
        table = [(FAMILIES[name][0], weight) for name, weight in names.items()]
        table += [*_OF_STATE, *(_CALLS if self.calls else ())]
        return [f for f, _ in table], [w for _, w in table]


class StateScene(Scene):
    """A scene whose nested scenes are of the same kind."""

    kind: Kind
    larger: tuple[tuple[int, ...], ...] = ()
    """Shapes of rows of vectors, of which some programs have a few."""

    def dims(self, rank: int | None = None, most: int = MOST_ELEMENTS, empty: bool = True) -> tuple[int, ...]:
        """As everywhere, and now and then one of the larger shapes."""
        fitting = [d for d in self.larger if most == MOST_ELEMENTS and (rank is None or len(d) == rank)]
        if fitting and self.flip(0.4):
            return self.chance.choice(fitting)
        return super().dims(rank, most, empty)

    def nested(self, name: str) -> StateScene:
        """The scene of a called computation."""
        inner = StateScene(self.module.computation(name), self.module, self.chance, self.depth + 1)
        inner.special, inner.usual = 0, self.usual
        inner.kind, inner.larger = self.kind, self.larger
        return inner

    def state(self, shape: Shape) -> Value:
        """A value of that shape that may be handed on."""
        return self.like(shape, self.kind.bits)

    def some_state(self) -> Value:
        """Any value that may be handed on."""
        return self.any(exact=self.kind.bits)

    def grow(self, length: int) -> None:
        """Adds about so many instructions."""
        families, weights = self.kind.families
        made = 0
        for _ in range(4 * length):
            if made >= length:
                break
            before = len(self.values)
            self.chance.choices(families, weights)[0](self)
            new = self.values[before:]
            made += sum(v.instruction.opcode not in ("parameter", "constant", "get-tuple-element") for v in new)


def grouped(scene: StateScene, shapes: list[Shape]) -> Shape:
    """A tuple of these shapes in their order; now and then some that lie side by side are a tuple inside it."""
    elements = list(shapes)
    if len(elements) > 2 and scene.flip(0.15):
        start = scene.chance.randrange(len(elements) - 1)
        stop = scene.chance.randint(start + 1, len(elements))
        elements[start:stop] = [tuple_shape(elements[start:stop])]
    return tuple_shape(elements)


def packed(scene: StateScene, values: list[Value], shape: Shape) -> Instruction:
    """The tuple of that shape that has these arrays."""
    rest = iter(values)

    def build(part: Shape) -> Instruction:
        if not part.is_tuple:
            return next(rest).instruction
        return scene.builder.tuple_(*(build(e) for e in part.elements))

    return build(shape)


def leaves(shape: Shape) -> list[Shape]:
    """The arrays of a nested tuple."""
    return [leaf for e in shape.elements for leaf in leaves(e)] if shape.is_tuple else [shape]
