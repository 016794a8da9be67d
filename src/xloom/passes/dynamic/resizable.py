"""A program that was made for several sizes, as one program that is given its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from xloom.errors import LoweringError
from xloom.hlo.attributes import SliceDimension, WindowDimension
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.dynamic.sizes import S32, Affine, affine, formula, scaled
from xloom.passes.dynamic.values import RULES, Emitter, Padded, Place, Repeated, Size, leaves, only
from xloom.passes.structure import Structure

Dims = dict[Place, Affine]


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


def resizable(samples: Sequence[tuple[int, Module]], position: int) -> Resizable:
    """The program for all sizes up to the first sample's, of at least three programs that one source gave for sizes.

    The size becomes the parameter `position`. What is affine in the samples' sizes is taken to be so between them:
    they should include the smallest, and odd ones. Raises LoweringError where the programs differ in more than sizes,
    or an operator would have to see what is beyond a size.
    """
    return _Rewriter(samples, position).run()


Special = Callable[["_Rewriter", Instruction, Sequence[Instruction], Sequence[Padded]], Padded]
_SPECIAL: dict[str, Special] = {}


def _special(*opcodes: str) -> Callable[[Special], Special]:
    def register(rule: Special) -> Special:
        _SPECIAL.update(dict.fromkeys(opcodes, rule))
        return rule

    return register


_OF_ROWS = frozenset({"reduce"})
"""Operators of one array whose rules take the size of rows as any other, besides those of `_SPECIAL`."""


class _Rewriter:
    """Sizes of values are left out along dimensions in which all elements are the same: they are right anywhere."""

    def __init__(self, samples: Sequence[tuple[int, Module]], position: int):
        self.sizes = [size for size, _ in samples]
        self.module = samples[0][1].clone("")
        self.others = [module for _, module in samples[1:]]
        self.position = position
        self.structure = Structure()
        self.computation = Computation(self.module.entry.name)
        self.emit = Emitter(self.module, self.computation)
        self.size = self.computation.add(Instruction("size", "parameter", S32, (), {"parameter_number": position}))
        self.scalars: dict[Affine, Instruction] = {}
        self.numbers: dict[Instruction, Affine] = {}
        self.parameters: dict[int, dict[int, Affine]] = {}

    def run(self) -> Resizable:
        old = self.module.entry
        orders = [c.post_order() for c in (old, *(module.entry for module in self.others))]
        if len({len(order) for order in orders}) > 1:
            raise LoweringError(f"{old.name} has other instructions for another size")
        number = {i: k for order in orders for k, i in enumerate(order)}
        values: list[Padded] = []
        dims: list[Dims] = []
        for instruction, *others in zip(*orders, strict=True):
            places = [number[o] for o in instruction.operands]
            if any([number[o] for o in other.operands] != places for other in others):
                raise _differs(instruction, "has other operands for another size")
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
            raise _differs(instruction, f"has {[*values]} for the sizes {self.sizes}, which is not affine")
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
            raise _differs(instruction, "has another type for another size")
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
            raise _differs(instruction, "has other attributes for another size")

    def meaning(self, instruction: Instruction) -> tuple[dict[str, Any], bytes]:
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
            raise _differs(old, f"is {others[0].opcode} for another size")
        special = _SPECIAL.get(old.opcode) or (_elementwise if old.op.elementwise else None)
        if special is not None:
            return special(self, old, others, operands, dims)
        self.same(old, others)
        if not dims and not any(o.dims for o in operands):
            return Padded(self.emit.clone(old, [o.value for o in operands]), {})
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
        rule = RULES.get(old.opcode)
        if rule is None or any(not _is_of_scalars(c) for c in old.called_computations):
            raise LoweringError(f"{old.opcode} of arrays of dynamic size has no static form", where=_where(old))
        made = rule(self.emit, old, operands)
        if made.sizes.keys() != dims.keys():
            raise LoweringError(f"{old.opcode} has other dynamic dimensions than its operands give", where=_where(old))
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
                raise LoweringError(f"{old.opcode} of arrays of other sizes", where=_where(old))
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


@dataclass
class Operand(Padded):
    """A value with all of its dimensions that depend on the size."""

    dims: Dims


def _where(instruction: Instruction) -> str:
    return f"{instruction.name} {instruction.metadata.location}".strip()


def _differs(instruction: Instruction, what: str) -> LoweringError:
    return LoweringError(f"{instruction.opcode} {what}", where=_where(instruction))


def _alike(r: _Rewriter, old: Instruction, others: Sequence[Instruction], but: str) -> None:
    """Raises LoweringError unless all attributes but one are those of the other samples."""
    meanings = [r.meaning(i) for i in (old, *others)]
    if any(({**attrs, but: None}, c) != ({**meanings[0][0], but: None}, meanings[0][1]) for attrs, c in meanings[1:]):
        raise _differs(old, "has other attributes for another size")


def _is_of_scalars(computation: Computation) -> bool:
    """True for one as reducers are."""
    return all(i.shape.is_scalar or i.shape.is_tuple for i in computation.instructions)


def _elementwise(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    r.same(old, others)
    arrays = [o for o in operands if o.value.shape.rank == old.shape.rank]
    sizes = {place: r.align(old, [(o, place[1]) for o in arrays]) for place in dims}
    return Padded(
        r.emit.clone(old, [o.value for o in operands]), {p: size for p, size in sizes.items() if size is not None}
    )


@_special("parameter")
def _parameter(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    if dims and old.shape.is_tuple:
        raise _differs(old, "is a tuple with another shape for another size")
    number = old["parameter_number"]
    r.parameters[number] = {d: size for (_, d), size in dims.items()}
    new = r.computation.add(old.clone())
    new["parameter_number"] = number + (number >= r.position)
    return r.sized(new, dims)


@_special("constant")
def _constant(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    literals = [i.literal for i in (old, *others)]
    if old.shape.is_tuple or any(each.elided for each in literals):
        r.same(old, others)
        return Padded(r.emit.clone(old, ()), {})
    arrays = [np.asarray(each.value) for each in literals]
    if dims:  # the smaller ones are parts of the largest
        if any(arrays[0][tuple(map(slice, a.shape))].tobytes() != a.tobytes() for a in arrays):
            raise _differs(old, "has other elements for another size")
    elif any(a.tobytes() != arrays[0].tobytes() for a in arrays):
        found = formula(r.sizes, literals) if old.shape.is_scalar else None
        if found is None:
            raise _differs(old, "has another value for another size, not affine in it or 1 over that")
        return Padded(found.emit(r.emit, r.size, old), {})
    return r.sized(r.emit.clone(old, ()), dims)


@_special("iota")
def _iota(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    r.same(old, others)
    along = old["iota_dimension"]
    return r.sized(r.emit.clone(old, ()), {place: n for place, n in dims.items() if place[1] == along})


@_special("rng-bit-generator")
def _random(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    """As many as there are at the bounds: those beyond are random, too."""
    r.same(old, others)
    return r.sized(r.emit.clone(old, [o.value for o in operands]), dims)


@_special("broadcast", "transpose", "tuple", "get-tuple-element", "opt-barrier")
def _moved(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    r.same(old, others)
    made = RULES[old.opcode](r.emit, old, operands)
    if not made.sizes.keys() <= dims.keys():
        raise _differs(old, "has other dimensions for another size")
    return made


@_special("dot")
def _dot(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    r.same(old, others)
    if not dims and not any(o.dims for o in operands):
        return Padded(r.emit.clone(old, [o.value for o in operands]), {})
    for kind in ("contracting", "batch"):
        for pair in zip(*(old[f"{side}_{kind}_dims"] for side in ("lhs", "rhs")), strict=True):
            r.align(old, [*zip(operands, pair, strict=True)])
    return r.by_rule(old, [r.filled(o, rows=True) for o in operands], dims)


@_special("convolution")
def _convolution(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    _alike(r, old, others, "window")  # of the largest, a kernel of dynamic size is zero beyond it
    for row in zip(*(i["window"] for i in (old, *others)), strict=True):
        if len({replace(w, size=1) for w in row}) > 1:
            raise _differs(old, "has another window for another size")
    if not dims and not any(o.dims for o in operands):
        return Padded(r.emit.clone(old, [o.value for o in operands]), {})
    return r.by_rule(old, [r.filled(o) for o in operands], dims)


@_special("reduce-window")
def _reduce_window(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    _alike(r, old, others, "window")
    for d, row in enumerate(zip(*(i["window"] for i in (old, *others)), strict=True)):
        # a window over all that comes before, in whatever size: cumulative sums
        over_all = all(
            w == WindowDimension(i.operands[0].shape.dims[d], padding_low=w.size - 1)
            for w, i in zip(row, (old, *others), strict=True)
        )
        if len(set(row)) > 1 and not over_all:
            raise _differs(old, "has another window for another size")
    if not dims and not any(o.dims for o in operands):
        return Padded(r.emit.clone(old, [o.value for o in operands]), {})
    return r.by_rule(old, [r.filled(o) for o in operands], dims)


@_special("gather")
def _gather(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    """Slices of a dynamic dimension are of one element, or of all."""
    _alike(r, old, others, "slice_sizes")
    array, indices = (r.filled(o) for o in operands)
    for d, row in enumerate(zip(*(i["slice_sizes"] for i in (old, *others)), strict=True)):
        whole = all(n == i.operands[0].shape.dims[d] for n, i in zip(row, (old, *others), strict=True))
        if not whole and len(set(row)) > 1:
            raise _differs(old, "has other slices for another size")
    if not dims and not array.sizes and not indices.sizes:
        return Padded(r.emit.clone(old, [array.value, indices.value]), {})
    return r.by_rule(old, [array, indices], dims)


@_special("slice")
def _slice(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    array = r.filled(operands[0], rows=True)
    rows = list(zip(*(i["slice"] for i in (old, *others)), strict=True))
    starts = [r.number(old, [each.start for each in row]) for row in rows]
    sizes: dict[Place, Size] = {**r.sized(array.value, dims).sizes}
    for d, row in enumerate(rows):
        size = array.size(d)
        if isinstance(size, Repeated) and row[0] == (0, array.value.shape.dims[d], 1) and (0, d) in dims:
            sizes[0, d] = size
        else:
            r.close(array, d)
    if any(len({each.stride for each in row}) > 1 for row in rows):
        raise _differs(old, "has another stride for another size")
    moved = [d for d, start in enumerate(starts) if start.scale]
    if not moved:
        return Padded(r.emit.clone(old, [array.value]), sizes)
    if any(rows[d][0].stride != 1 or starts[d].scale < 0 for d in moved):
        raise _differs(old, "starts elsewhere for another size")
    # slice(x, [f(n) : f(n) + k]) = dynamic-slice(x, f(n)), and f(n) + k is at most the bound
    whole = [old.shape.dims[d] if d in moved else n for d, n in enumerate(array.value.shape.dims)]
    at = [r.scalar(start) if start.scale else r.emit.number(0) for start in starts]
    shape = array_shape(old.shape.dtype, whole)
    taken = r.emit("dynamic-slice", shape, (array.value, *at), {"dynamic_slice_sizes": tuple(whole)})
    rest = tuple(row[0]._replace(start=0, limit=whole[d]) if d in moved else row[0] for d, row in enumerate(rows))
    return Padded(r.emit("slice", old.shape, (taken,), {"slice": rest}), sizes)


@_special("pad")
def _pad(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    array, value = r.filled(operands[0]), operands[1]
    rows = list(zip(*(i["padding"] for i in (old, *others)), strict=True))
    lows = [r.number(old, [each.low for each in row]) for row in rows]
    if any(len({each.interior for each in row}) > 1 for row in rows):
        raise _differs(old, "has other attributes for another size")
    filled = r.emit.masked(array, value.value)
    if not any(low.scale for low in lows):  # more or less padding behind the elements moves none of them
        return r.sized(r.emit.clone(old, [filled, value.value]), dims)
    if any(row[0].interior or row[0].high < 0 or low.scale < 0 for row, low in zip(rows, lows, strict=True)):
        raise _differs(old, "begins elsewhere for another size")
    # pad(x, v, low=f(n)) = dynamic-update-slice(broadcast(v), x, f(n))
    at = [r.scalar(low) if low.scale else r.emit.number(low.offset) for low in lows]
    out = r.emit("dynamic-update-slice", old.shape, (r.emit.spread(value.value, old.shape), filled, *at))
    return r.sized(out, dims)


@_special("dynamic-update-slice")
def _update(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    """An update of dynamic size leaves what is behind it; it begins where the program says."""
    r.same(old, others)
    array, update = (r.filled(o) for o in operands[:2])
    at = operands[2:]
    if not update.sizes:
        return r.by_rule(old, [array, update, *at], dims)
    bounds = zip(old.operands[2:], update.value.shape.dims, old.shape.dims, strict=True)
    fits = [i.opcode == "constant" and 0 <= i.literal.item() <= n - k for i, k, n in bounds]
    if not all(fits):
        raise _differs(old, "puts an array of dynamic size somewhere")
    starts = [int(i.literal.item()) for i in old.operands[2:]]
    limits = tuple(SliceDimension(s, s + n) for s, n in zip(starts, update.value.shape.dims, strict=True))
    before = r.emit("slice", update.value.shape, (array.value,), {"slice": limits})
    new = update.value
    for (_, d), size in update.sizes.items():
        new = r.emit("select", new.shape, (r.emit.inside(new.shape, d, size), new, before))
    return Padded(r.emit.clone(old, [array.value, new, *(o.value for o in at)]), array.sizes)


@_special("reshape")
def _reshape(r: _Rewriter, old: Instruction, others: Any, operands: Sequence[Operand], dims: Dims) -> Padded:
    array = r.filled(operands[0], rows=True)
    sizes = _in_place(r, array, old, dims)
    if sizes is not None:
        return Padded(r.emit.clone(old, [array.value]), sizes)
    for _, d in [*array.sizes]:
        r.close(array, d)
    _part(r, array, old, dims)
    sizes = _in_place(r, array, old, dims)
    if sizes is not None:
        return Padded(r.emit.clone(old, [array.value]), sizes)
    for _, d in [*array.sizes]:
        r.close(array, d)
    numbers = [r.scalar(dims[0, d]) if (0, d) in dims else r.emit.number(n) for d, n in enumerate(old.shape.dims)]
    given = [Padded(number, {}) for number in numbers]
    return r.sized(RULES["dynamic-reshape"](r.emit, old, [array, *given]).value, dims)


def _part(r: _Rewriter, array: Padded, old: Instruction, dims: Dims) -> None:
    """Gives a dimension that a reshape splits into rows of dynamic size the places of such rows."""
    for source, target in _groups(array.value.shape.dims, old.shape.dims):
        tos = [k for k, (d, _) in enumerate(target) if (0, d) in dims]
        if len(source) != 1 or (0, source[0][0]) not in array.sizes or len(tos) != 1:
            continue
        d, bound = source[0]
        rows = prod(n for _, n in target[: tos[0]])
        number = r.numbers[only(array.sizes[0, d])]
        if rows > 1 and number.scale % rows == 0 and number.offset % rows == 0:
            size = Repeated(r.scalar(Affine(number.scale // rows, number.offset // rows)), bound // rows)
            array.value = r.moved(array.value, d, r.place_of_rows(size, bound))
            array.sizes[0, d] = size


def _in_place(r: _Rewriter, array: Padded, old: Instruction, dims: Dims) -> dict[Place, Size] | None:
    """The result's sizes, if a reshape at the bounds has the elements where they belong; else None."""
    sizes: dict[Place, Size] = {}
    if not old.shape.size:
        return None
    for source, target in _groups(array.value.shape.dims, old.shape.dims):
        froms = [k for k, (d, _) in enumerate(source) if (0, d) in array.sizes]
        tos = [k for k, (d, _) in enumerate(target) if (0, d) in dims]
        if not froms and not tos:
            continue
        if len(froms) != 1 or len(tos) != 1:
            return None
        size = array.sizes[0, source[froms[0]][0]]
        made = _of_group(r, size, [n for _, n in source], froms[0], [n for _, n in target], tos[0])
        if made is None:
            return None
        place = (0, target[tos[0]][0])
        period, number = made
        repeats = target[tos[0]][1] // period
        if Affine(number.scale * repeats, number.offset * repeats) != dims[place]:
            return None
        sizes[place] = r.scalar(number) if repeats == 1 else Repeated(r.scalar(number), period)
    return sizes


def _of_group(
    r: _Rewriter, size: Size, source: Sequence[int], i: int, target: Sequence[int], j: int
) -> tuple[int, Affine] | None:
    """The period and size along `target[j]` of what has a size along `source[i]`, where both are the same elements."""
    number = r.numbers[size.size if isinstance(size, Repeated) else size]
    period = size.period if isinstance(size, Repeated) else source[i]
    rows = prod(source[:i]) * (source[i] // period)  # each of period * prod(source[i + 1 :]) elements
    inner, inner_of_target = prod(source[i + 1 :]), prod(target[j + 1 :])
    scaled = [n * inner for n in (period, number.scale, number.offset)]
    if any(n % inner_of_target for n in scaled):
        return None
    period, scale, offset = (n // inner_of_target for n in scaled)
    before = prod(target[:j])
    if rows % before or target[j] % period or rows // before != target[j] // period:
        return None
    return period, Affine(scale, offset)


def _groups(
    source: Sequence[int], target: Sequence[int]
) -> Iterator[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    """Dimensions of a reshape that become others, as few as have the same number of elements: (number, size) each."""
    froms, tos = list(enumerate(source)), list(enumerate(target))
    while froms or tos:
        left, right = [froms.pop(0)] if froms else [], [tos.pop(0)] if tos else []
        while prod(n for _, n in left) != prod(n for _, n in right):
            if prod(n for _, n in left) < prod(n for _, n in right):
                left.append(froms.pop(0))
            else:
                right.append(tos.pop(0))
        while froms and froms[0][1] == 1 and not tos:
            left.append(froms.pop(0))
        while tos and tos[0][1] == 1 and not froms:
            right.append(tos.pop(0))
        yield left, right
