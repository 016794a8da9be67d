"""A program of several sizes, instruction by instruction: what depends on the size, and values with their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xloom.errors import LoweringError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.dynamic.sizes import S32, Affine, affine, scaled
from xloom.passes.dynamic.values import RULES, Emitter, Padded, Place, Repeated, Size, leaves
from xloom.passes.structural_identity import StructuralIdentity

Dims = dict[Place, Affine]


@dataclass
class Operand(Padded):
    """A value with all of its dimensions that depend on the size."""

    dims: Dims


@dataclass(frozen=True)
class Extent:
    """How much of a dimension is there: of every `period` elements the first `size`; without a period, of all."""

    size: Affine
    period: int | None = None


@dataclass(frozen=True)
class Resizable:
    """A program of arrays at their bounds, with one more parameter: the size, an s32 scalar from 1 to the bound.

    What is beyond a size is undefined.
    """

    module: Module
    parameters: list[dict[int, Affine]]
    """Of each other parameter, the dimensions whose size is not the bound."""
    results: list[dict[int, Extent]]
    """And of each leaf of the result."""


ResizingRule = Callable[["Resizing", Instruction, Sequence[Instruction], Sequence[Operand], Dims], Padded]
RESIZING: dict[str, ResizingRule] = {}
"""By opcode, for those that may differ between sizes; the others are those of `RULES`."""


def resizes(*opcodes: str) -> Callable[[ResizingRule], ResizingRule]:
    """Registers `rule(resizing, instruction, the other samples', operands, dynamic dimensions) -> padded`."""

    def register(rule: ResizingRule) -> ResizingRule:
        RESIZING.update(dict.fromkeys(opcodes, rule))
        return rule

    return register


_OF_ROWS = frozenset({"reduce"})
"""Operators of one array whose rules take the size of rows as any other, besides those of `RESIZING`."""


class Resizing:
    """Sizes of values are left out along dimensions in which all elements are the same: they are right anywhere."""

    def __init__(self, samples: Sequence[tuple[int, Module]], position: int):
        self.sizes = [size for size, _ in samples]
        self.module = samples[0][1].clone("")
        self.others = [module for _, module in samples[1:]]
        self.position = position
        self.structure = StructuralIdentity()
        self.computation = Computation(self.module.entry.name)
        self.emit = Emitter(self.module, self.computation)
        self.size = self.computation.add(Instruction("size", "parameter", S32, (), {"parameter_number": position}))
        self.scalars: dict[Affine, Instruction] = {}
        self.numbers: dict[Instruction, Affine] = {}
        self.parameters: dict[int, dict[int, Affine]] = {}

    def run(self) -> Resizable:
        """See `resizable`."""
        old = self.module.entry
        orders = [c.post_order() for c in (old, *(module.entry for module in self.others))]
        if len({len(order) for order in orders}) > 1:
            raise LoweringError(
                f"{old.name} has other instructions for another size", hint="it is compiled for each size by itself"
            )
        number = {i: k for order in orders for k, i in enumerate(order)}
        values: list[Padded] = []
        dims: list[Dims] = []
        for instruction, *others in zip(*orders, strict=True):
            places = [number[o] for o in instruction.operands]
            if any([number[o] for o in other.operands] != places for other in others):
                raise differs(instruction, "has other operands for another size")
            dims.append(self._dims(instruction, others))
            operands = [Operand(values[k].value, dict(values[k].sizes), dims[k]) for k in places]
            values.append(self._instruction(instruction, others, operands, dims[-1]))
        root = number[old.root]
        extents = {place: self._extent(values[root].sizes.get(place), size) for place, size in dims[root].items()}
        self.computation.root = values[root].value
        self.module.entry = self.module.add(self.computation)
        self.module.remove(old)
        leaf_count = len(leaves(old.root.shape))
        return Resizable(
            self.module,
            [self.parameters[k] for k in sorted(self.parameters)],
            [{d: e for (leaf, d), e in extents.items() if leaf == k} for k in range(leaf_count)],
        )

    def _extent(self, size: Size | None, number: Affine) -> Extent:
        return Extent(self.numbers[size.size], size.period) if isinstance(size, Repeated) else Extent(number)

    # -- what depends on the size
    def number(self, instruction: Instruction, values: Sequence[int]) -> Affine:
        """The formula for a number of the samples."""
        found = affine(self.sizes, values)
        if found is None:
            raise differs(instruction, f"has {[*values]} for the sizes {self.sizes}, which is not affine")
        return found

    def scalar(self, number: Affine) -> Instruction:
        """It, when the program runs."""
        if number not in self.scalars:
            self.scalars[number] = scaled(self.emit, self.size, number)
            self.numbers[self.scalars[number]] = number
        return self.scalars[number]

    def _dims(self, instruction: Instruction, others: Sequence[Instruction]) -> Dims:
        """The dimensions of its value that depend on the size."""
        shapes = [leaves(i.shape) for i in (instruction, *others)]
        if len({tuple((s.dtype, s.rank) for s in each) for each in shapes}) > 1:
            raise differs(instruction, "has another type for another size")
        numbers = {
            (k, d): self.number(instruction, [s.dims[d] for s in row])
            for k, row in enumerate(zip(*shapes, strict=True))
            for d in range(row[0].rank)
        }
        return {place: number for place, number in numbers.items() if number.scale}

    def sized(self, value: Instruction, dims: Mapping[Place, Affine]) -> Padded:
        """A value with its sizes."""
        return Padded(value, {place: self.scalar(number) for place, number in dims.items()})

    def same(self, instruction: Instruction, others: Sequence[Instruction]) -> None:
        """Raises LoweringError unless all attributes are those of the other samples."""
        own = self.meaning(instruction)
        if any(self.meaning(other) != own for other in others):
            raise differs(instruction, "has other attributes for another size")

    def meaning(self, instruction: Instruction) -> tuple[dict[str, Any], str]:
        """Attributes, in a form in which those of two samples are equal, and the configuration."""
        attrs = {name: self._meaning_of(value) for name, value in instruction.attrs.items() if name != "origin"}
        return attrs, instruction.backend_config

    def _meaning_of(self, value: Any) -> Any:
        if isinstance(value, Computation):
            return self.structure.number(value)
        if isinstance(value, Literal):
            return value.shape, value.value.tobytes()
        return tuple(map(self._meaning_of, value)) if type(value) in (tuple, list) else value

    # -- instructions
    def _instruction(
        self, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
    ) -> Padded:
        if any(other.opcode != old.opcode for other in others):
            raise differs(old, f"is {others[0].opcode} for another size")
        special = RESIZING.get(old.opcode) or (RESIZING["elementwise"] if old.op.elementwise else None)
        if special is not None:
            return special(self, old, others, operands, dims)
        self.same(old, others)
        known = old.opcode in _OF_ROWS and len(operands) - old.opcode.count("reduce") <= 1
        return self.by_rule(old, [self.filled(o, rows=known) for o in operands], dims)

    def filled(self, operand: Operand, *, rows: bool = False) -> Padded:
        """An operand with a size along all dimensions that have one, those of `rows` as such."""
        made = Padded(operand.value, {**self.sized(operand.value, operand.dims).sizes, **operand.sizes})
        if not rows:
            for _, d in [*made.sizes]:
                self.close(made, d)
        return made

    def by_rule(self, old: Instruction, operands: Sequence[Padded], dims: Dims) -> Padded:
        """The rule's value with the sizes that the samples have."""
        if not dims and not any(o.sizes for o in operands):
            return Padded(self.emit.clone(old, [o.value for o in operands]), {})
        rule = RULES.get(old.opcode)
        if rule is None or any(not _is_of_scalars(c) for c in old.called_computations):
            raise LoweringError(f"{old.opcode} of arrays of dynamic size has no static form", where=where(old))
        made = rule(self.emit, old, operands)
        if made.sizes.keys() != dims.keys():
            raise LoweringError(f"{old.opcode} has other dynamic dimensions than its operands give", where=where(old))
        sizes = {p: s if isinstance(s, Repeated) else self.scalar(dims[p]) for p, s in made.sizes.items()}
        return Padded(made.value, sizes)

    def align(self, old: Instruction, meeting: Sequence[tuple[Padded, int]]) -> Size | None:
        """Gives dimensions that meet in an operator one size, and returns it; None where all elements are the same.

        Raises LoweringError for sizes that are not of the same elements.
        """
        found = {size: None for operand, d in meeting if (size := operand.size(d)) is not None}
        size = next((s for s in found if isinstance(s, Repeated)), next(iter(found), None))
        for operand, d in meeting:
            own = operand.size(d)
            if isinstance(size, Repeated) and own is not None and not isinstance(own, Repeated):
                operand.value = self.moved(operand.value, d, self.place_of_rows(size, operand.value.shape.dims[d]))
            elif own not in (None, size):
                raise LoweringError(f"{old.opcode} of arrays of other sizes", where=where(old))
            if size is not None:
                operand.sizes[0, d] = size
        return size

    # -- rows of dynamic size
    def close(self, operand: Padded, d: int) -> None:
        """Puts the rows along a dimension one directly after another."""
        size = operand.size(d)
        if not isinstance(size, Repeated):
            return
        bound = operand.value.shape.dims[d]
        shape = array_shape(S32.dtype, (bound,))
        place, own = self.emit.places(shape, 0), self.emit.spread(size.size, shape)
        # element p of rows of size s lies at p / s * period + p % s
        row, inside = (self.emit(opcode, shape, (place, own)) for opcode in ("divide", "remainder"))
        start = self.emit("multiply", shape, (row, self.emit.spread(self.emit.number(size.period), shape)))
        operand.value = self.moved(operand.value, d, self.emit("add", shape, (start, inside)))
        number, rows = self.numbers[size.size], bound // size.period
        operand.sizes[0, d] = self.scalar(Affine(number.scale * rows, number.offset * rows))

    def place_of_rows(self, size: Repeated, bound: int) -> Instruction:
        """Where the elements of rows lie, one directly after another: p / period * s + p % period."""
        shape = array_shape(S32.dtype, (bound,))
        place, period = self.emit.places(shape, 0), self.emit.spread(self.emit.number(size.period), shape)
        row, inside = (self.emit(opcode, shape, (place, period)) for opcode in ("divide", "remainder"))
        start = self.emit("multiply", shape, (row, self.emit.spread(size.size, shape)))
        return self.emit("add", shape, (start, inside))

    def moved(self, array: Instruction, d: int, places: Instruction) -> Instruction:
        """The array's elements at other places along a dimension."""
        rank = array.shape.rank
        attrs = {
            "offset_dims": tuple(k for k in range(rank) if k != d),
            "collapsed_slice_dims": (d,),
            "start_index_map": (d,),
            "index_vector_dim": 1,
            "slice_sizes": tuple(1 if k == d else n for k, n in enumerate(array.shape.dims)),
        }
        return self.emit("gather", array.shape, (array, places), attrs)


def where(instruction: Instruction) -> str:
    """Its name and source line."""
    return f"{instruction.name} {instruction.metadata.location}".strip()


def differs(instruction: Instruction, what: str) -> LoweringError:
    """The error for one that samples do not have in common."""
    return LoweringError(f"{instruction.opcode} {what}", where=where(instruction))


def alike(r: Resizing, old: Instruction, others: Sequence[Instruction], but: str) -> None:
    """Raises LoweringError unless all attributes but one are those of the other samples."""
    meanings = [r.meaning(i) for i in (old, *others)]
    if any(({**attrs, but: None}, c) != ({**meanings[0][0], but: None}, meanings[0][1]) for attrs, c in meanings[1:]):
        raise differs(old, "has other attributes for another size")


def _is_of_scalars(computation: Computation) -> bool:
    """True for one as reducers are."""
    return all(i.shape.is_scalar or i.shape.is_tuple for i in computation.instructions)
