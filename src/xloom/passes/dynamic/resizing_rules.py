"""Operators that may have other attributes for another size, and what they do with values of dynamic size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xloom.hlo.attributes import WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.dynamic.resizing import Dims, Operand, Resizing, alike, differs, resizes
from xloom.passes.dynamic.sizes import formula
from xloom.passes.dynamic.values import RULES, Padded, Place, Repeated, Size


@resizes("elementwise")
def _elementwise(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    r.same(old, others)
    arrays = [o for o in operands if o.value.shape.rank == old.shape.rank]
    sizes = {place: r.align(old, [(o, place[1]) for o in arrays]) for place in dims}
    return Padded(
        r.emit.clone(old, [o.value for o in operands]), {p: size for p, size in sizes.items() if size is not None}
    )


@resizes("parameter")
def _parameter(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    if dims and old.shape.is_tuple:
        raise differs(old, "is a tuple with another shape for another size")
    number = old["parameter_number"]
    r.parameters[number] = {d: size for (_, d), size in dims.items()}
    new = r.computation.add(old.clone())
    new["parameter_number"] = number + (number >= r.position)
    return r.sized(new, dims)


@resizes("constant")
def _constant(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    literals = [i.literal for i in (old, *others)]
    if old.shape.is_tuple or any(each.elided for each in literals):
        r.same(old, others)
        return Padded(r.emit.clone(old, ()), {})
    arrays = [np.asarray(each.value) for each in literals]
    if dims:  # the smaller ones are parts of the largest
        if any(arrays[0][tuple(map(slice, a.shape))].tobytes() != a.tobytes() for a in arrays):
            raise differs(old, "has other elements for another size")
    elif any(a.tobytes() != arrays[0].tobytes() for a in arrays):
        found = formula(r.sizes, literals) if old.shape.is_scalar else None
        if found is None:
            raise differs(old, "has another value for another size, not affine in it or 1 over that")
        return Padded(found.emit(r.emit, r.size, old), {})
    return r.sized(r.emit.clone(old, ()), dims)


@resizes("iota")
def _iota(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    r.same(old, others)
    along = old["iota_dimension"]
    return r.sized(r.emit.clone(old, ()), {place: n for place, n in dims.items() if place[1] == along})


@resizes("rng-bit-generator")
def _random(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    """As many as there are at the bounds: those beyond are random, too."""
    r.same(old, others)
    return r.sized(r.emit.clone(old, [o.value for o in operands]), dims)


@resizes("broadcast", "transpose", "tuple", "get-tuple-element", "opt-barrier")
def _moved(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    r.same(old, others)
    made = RULES[old.opcode](r.emit, old, operands)
    if not made.sizes.keys() <= dims.keys():
        raise differs(old, "has other dimensions for another size")
    return made


@resizes("dot")
def _dot(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    r.same(old, others)
    for kind in ("contracting", "batch"):
        for pair in zip(*(old[f"{side}_{kind}_dims"] for side in ("lhs", "rhs")), strict=True):
            r.align(old, [*zip(operands, pair, strict=True)])
    return r.by_rule(old, [r.filled(o, rows=True) for o in operands], dims)


@resizes("convolution")
def _convolution(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    alike(r, old, others, "window")  # of the largest, a kernel of dynamic size is zero beyond it
    for row in zip(*(i["window"] for i in (old, *others)), strict=True):
        if len({replace(w, size=1) for w in row}) > 1:
            raise differs(old, "has another window for another size")
    return r.by_rule(old, [r.filled(o) for o in operands], dims)


@resizes("reduce-window")
def _reduce_window(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    alike(r, old, others, "window")
    for d, row in enumerate(zip(*(i["window"] for i in (old, *others)), strict=True)):
        # a window over all that comes before, in whatever size: cumulative sums
        over_all = all(
            w == WindowDimension(i.operands[0].shape.dims[d], padding_low=w.size - 1)
            for w, i in zip(row, (old, *others), strict=True)
        )
        if len(set(row)) > 1 and not over_all:
            raise differs(old, "has another window for another size")
    return r.by_rule(old, [r.filled(o) for o in operands], dims)


@resizes("gather")
def _gather(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    """Slices of a dynamic dimension are of one element, or of all."""
    alike(r, old, others, "slice_sizes")
    array, indices = (r.filled(o) for o in operands)
    for d, row in enumerate(zip(*(i["slice_sizes"] for i in (old, *others)), strict=True)):
        whole = all(n == i.operands[0].shape.dims[d] for n, i in zip(row, (old, *others), strict=True))
        if not whole and len(set(row)) > 1:
            raise differs(old, "has other slices for another size")
    return r.by_rule(old, [array, indices], dims)


@resizes("slice")
def _slice(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
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
        raise differs(old, "has another stride for another size")
    moved = [d for d, start in enumerate(starts) if start.scale]
    if not moved:
        return Padded(r.emit.clone(old, [array.value]), sizes)
    if any(rows[d][0].stride != 1 or starts[d].scale < 0 for d in moved):
        raise differs(old, "starts elsewhere for another size")
    # slice(x, [f(n) : f(n) + k]) = dynamic-slice(x, f(n)), and f(n) + k is at most the bound
    whole = [old.shape.dims[d] if d in moved else n for d, n in enumerate(array.value.shape.dims)]
    at = [r.scalar(start) if start.scale else r.emit.number(0) for start in starts]
    shape = array_shape(old.shape.dtype, whole)
    taken = r.emit("dynamic-slice", shape, (array.value, *at), {"dynamic_slice_sizes": tuple(whole)})
    rest = tuple(row[0]._replace(start=0, limit=whole[d]) if d in moved else row[0] for d, row in enumerate(rows))
    return Padded(r.emit("slice", old.shape, (taken,), {"slice": rest}), sizes)


@resizes("pad")
def _pad(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    array, value = r.filled(operands[0]), operands[1]
    rows = list(zip(*(i["padding"] for i in (old, *others)), strict=True))
    lows = [r.number(old, [each.low for each in row]) for row in rows]
    if any(len({each.interior for each in row}) > 1 for row in rows):
        raise differs(old, "has other attributes for another size")
    filled = r.emit.masked(array, value.value)
    if not any(low.scale for low in lows):  # more or less padding behind the elements moves none of them
        return r.sized(r.emit.clone(old, [filled, value.value]), dims)
    if any(row[0].interior or row[0].high < 0 or low.scale < 0 for row, low in zip(rows, lows, strict=True)):
        raise differs(old, "begins elsewhere for another size")
    # pad(x, v, low=f(n)) = dynamic-update-slice(broadcast(v), x, f(n))
    at = [r.scalar(low) if low.scale else r.emit.number(low.offset) for low in lows]
    out = r.emit("dynamic-update-slice", old.shape, (r.emit.spread(value.value, old.shape), filled, *at))
    return r.sized(out, dims)
