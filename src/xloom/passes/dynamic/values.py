"""Padded values, and the instructions that deal with sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xloom.errors import LoweringError
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.hlo.shape import UNBOUNDED, Shape, array_shape, tuple_shape

Place = tuple[int, int]
"""A dynamic dimension of a value: the leaf's number in pre-order, and the dimension."""


@dataclass(frozen=True)
class Repeated:
    """The size of a dimension of rows: of every `period` elements, the first `size` are there."""

    size: Instruction
    period: int


Size = Instruction | Repeated


@dataclass
class Padded:
    """A value at its bounds, and the run-time size of each of its dynamic dimensions."""

    value: Instruction
    sizes: dict[Place, Size]

    def size(self, dim: int) -> Size | None:
        """An array's run-time size along `dim`; None where it is the bound."""
        return self.sizes.get((0, dim))


Rule = Callable[["Emitter", Instruction, Sequence[Padded]], Padded]
RULES: dict[str, Rule] = {}


def pads(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers `rule(emitter, instruction, padded_operands) -> padded`."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return register


def unsupported(instruction: Instruction) -> LoweringError:
    """The error for an operator that has no static form."""
    return LoweringError(
        f"{instruction.opcode} of arrays of dynamic size has no static form",
        where=f"{instruction.name} {instruction.metadata.location}".strip(),
        hint="run the program on the interpreter: xloom.evaluate",
    )


def static(shape: Shape) -> Shape:
    """The shape at its bounds. Raises LoweringError for a dimension without a bound."""
    if shape.is_tuple:
        return tuple_shape([static(e) for e in shape.elements])
    if not shape.is_array:
        return shape
    if UNBOUNDED in shape.dims:
        raise LoweringError(f"{shape} has a dimension without a bound", hint="give it one: f32[<=100]")
    return array_shape(shape.dtype, shape.dims)


def leaves(shape: Shape) -> list[Shape]:
    """The arrays of a value, in pre-order."""
    if shape.is_tuple:
        return [leaf for e in shape.elements for leaf in leaves(e)]
    return [shape] if shape.is_array else []


def dynamic_leaves(shape: Shape) -> list[Place]:
    """The dynamic dimensions of a value."""
    return [(k, d) for k, leaf in enumerate(leaves(shape)) for d in range(leaf.rank) if leaf.is_dynamic_dimension(d)]


def only(size: Size) -> Instruction:
    """The size of a dimension that is one row. Raises LoweringError for more."""
    if isinstance(size, Repeated):
        raise LoweringError(
            "rows of dynamic size, one after another, have no size together",
            hint="pad them to one size before they are joined, or run it on the interpreter",
        )
    return size


class Emitter:
    """Adds instructions to a computation."""

    def __init__(self, module: Module, computation: Computation):
        self._module = module
        self._computation = computation

    def __call__(
        self, opcode: str, shape: Shape, operands: Sequence[Instruction] = (), attrs: Mapping[str, Any] | None = None
    ) -> Instruction:
        """A new instruction."""
        return self._computation.add(Instruction(opcode, opcode, shape, operands, dict(attrs or {})))

    def clone(self, old: Instruction, operands: Sequence[Instruction], shape: Shape | None = None) -> Instruction:
        """The instruction with other operands, at its bounds."""
        return self._computation.add(old.clone(operands, shape=shape or static(old.shape)))

    # -- numbers
    def number(self, value: int) -> Instruction:
        """An s32 scalar."""
        return self("constant", array_shape(s32, ()), (), {"literal": literal(np.int32(value))})

    def bound(self, shape: Shape, leaf: int, dim: int) -> Instruction:
        """The size of a dimension that is full."""
        return self.number(leaves(shape)[leaf].dims[dim])

    def scalar(self, opcode: str, x: Size, y: Size | int) -> Instruction:
        """An operator of two s32 scalars. Raises LoweringError for the size of rows."""
        x, y = only(x), self.number(y) if isinstance(y, int) else only(y)
        return self(opcode, x.shape, (x, y))

    def size_of(self, value: Padded, dim: int) -> Instruction:
        """The run-time size, whether dynamic or not. Raises LoweringError for that of rows."""
        size = value.size(dim)
        return self.number(value.value.shape.dims[dim]) if size is None else only(size)

    def size_at(self, value: Padded, place: Place, shape: Shape) -> Instruction:
        """The run-time size at a place of a value of that shape."""
        size = value.sizes.get(place)
        return self.bound(shape, *place) if size is None else only(size)

    # -- arrays
    def spread(self, scalar: Instruction, shape: Shape) -> Instruction:
        """A scalar as an array of the dimensions of `shape`."""
        return self("broadcast", array_shape(scalar.shape.dtype, shape.dims), (scalar,), {"dimensions": ()})

    def places(self, shape: Shape, dim: int) -> Instruction:
        """The index along `dim` of each element, s32."""
        return self("iota", array_shape(s32, shape.dims), (), {"iota_dimension": dim})

    def inside(self, shape: Shape, dim: int, size: Size) -> Instruction:
        """Which elements lie below `size` along `dim`, in their row."""
        places = self.places(shape, dim)
        if isinstance(size, Repeated):
            period = self.spread(self.number(size.period), shape)
            places, size = self("remainder", places.shape, (places, period)), size.size
        operands = (places, self.spread(size, shape))
        return self("compare", array_shape(pred, shape.dims), operands, {"direction": "LT"})

    def masked(self, value: Padded, fill: Instruction, dims: Sequence[int] | None = None) -> Instruction:
        """The array with the scalar `fill` beyond its sizes, along `dims` or all."""
        out = value.value
        for (_, dim), size in value.sizes.items():
            if dims is None or dim in dims:
                chosen = (self.inside(out.shape, dim, size), out, self.spread(fill, out.shape))
                out = self("select", out.shape, chosen)
        return out

    def filled(self, shape: Shape, value: int) -> Instruction:
        """A number as a scalar of the shape's element type; integers wrap."""
        array = np.asarray(value, np.int64).astype(shape.dtype.numpy)
        return self("constant", array_shape(shape.dtype, ()), (), {"literal": literal(array)})

    def zero(self, shape: Shape) -> Instruction:
        """A scalar zero of the shape's element type."""
        return self.filled(shape, 0)

    # -- tuples
    def packed_shape(self, shape: Shape) -> Shape:
        """Of a value with its sizes."""
        if not shape.is_dynamic:
            return static(shape)
        sizes = [array_shape(s32, ())] * len(dynamic_leaves(shape))
        return tuple_shape([static(shape), tuple_shape(sizes)])

    def packed(self, value: Padded, shape: Shape) -> Instruction:
        """A value with its sizes as one tuple; as it is when `shape` has none."""
        if not shape.is_dynamic:
            return value.value
        sizes = [self.size_at(value, place, shape) for place in dynamic_leaves(shape)]
        beside = self("tuple", tuple_shape([s.shape for s in sizes]), sizes)
        return self("tuple", self.packed_shape(shape), (value.value, beside))

    def unpacked(self, packed: Instruction, shape: Shape) -> Padded:
        """The inverse of `packed`."""
        if not shape.is_dynamic:
            return Padded(packed, {})
        value, beside = (self("get-tuple-element", packed.shape.elements[k], (packed,), {"index": k}) for k in (0, 1))
        sizes: dict[Place, Size] = {
            place: self("get-tuple-element", array_shape(s32, ()), (beside,), {"index": k})
            for k, place in enumerate(dynamic_leaves(shape))
        }
        return Padded(value, sizes)
