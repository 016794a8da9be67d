"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.attributes import PaddingDimension
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.dynamic.values import Emitter, Padded, only, pads, static, unsupported


@pads("broadcast")
def broadcast(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Sizes go where their dimensions go."""
    dims = old["dimensions"]
    return Padded(e.clone(old, [operands[0].value]), {(0, dims[d]): s for (_, d), s in operands[0].sizes.items()})


@pads("transpose")
def transpose(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Sizes go where their dimensions go."""
    order = list(old["dimensions"])
    sizes = {(0, order.index(d)): s for (_, d), s in operands[0].sizes.items()}
    return Padded(e.clone(old, [operands[0].value]), sizes)


@pads("slice")
def slice_(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """ceil((min(limit, size) - start) / stride), at least 0."""
    sizes = {}
    for (_, d), size in operands[0].sizes.items():
        start, limit, stride = old["slice"][d]
        there = e.scalar("subtract", e.scalar("minimum", size, limit), start - stride + 1)
        sizes[0, d] = e.scalar("divide", e.scalar("maximum", there, stride - 1), stride)
    return Padded(e.clone(old, [operands[0].value]), sizes)


@pads("pad")
def pad(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Beyond the size everything is padding."""
    array, value = operands
    filled = e.masked(array, value.value)
    sizes = {}
    for (_, d), size in array.sizes.items():
        low, high, interior = old["padding"][d]
        gaps = e.scalar("multiply", e.scalar("maximum", e.scalar("subtract", size, 1), 0), interior)
        total = e.scalar("add", e.scalar("add", size, gaps), low + high)
        sizes[0, d] = e.scalar("maximum", total, 0)
    return Padded(e.clone(old, [filled, value.value]), sizes)


@pads("concatenate")
def concatenate(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """One after another at run-time offsets; each overwrites what is beyond the size of the one before."""
    (dim,) = old["dimensions"]
    shape = static(old.shape)
    sizes = {place: s for o in operands for place, s in o.sizes.items() if place[1] != dim}
    if not any((0, dim) in o.sizes for o in operands):
        return Padded(e.clone(old, [o.value for o in operands]), sizes)
    out, at, zero = e.spread(e.zero(shape), shape), e.number(0), e.number(0)
    for operand in operands:
        starts = [at if d == dim else zero for d in range(shape.rank)]
        out = e("dynamic-update-slice", shape, (out, operand.value, *starts))
        at = e.scalar("add", at, e.size_of(operand, dim))
    return Padded(out, {**sizes, (0, dim): at})


@pads("reverse")
def reverse(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Reversed at the bounds, and moved so that what is in the array comes first."""
    (array,) = operands
    out = e.clone(old, [array.value])
    moved = {d: s for (_, d), s in array.sizes.items() if d in old["dimensions"]}
    if moved:
        dims = out.shape.dims
        padding = tuple(PaddingDimension(0, n if d in moved else 0) for d, n in enumerate(dims))
        wide = array_shape(out.shape.dtype, [n + p.high for n, p in zip(dims, padding, strict=True)])
        out = e("pad", wide, (out, e.zero(out.shape)), {"padding": padding})
        zero = e.number(0)
        starts = [e.scalar("subtract", e.number(dims[d]), moved[d]) if d in moved else zero for d in range(len(dims))]
        out = e("dynamic-slice", array_shape(out.shape.dtype, dims), (out, *starts), {"dynamic_slice_sizes": dims})
    return Padded(out, array.sizes)


@pads("dynamic-slice")
def dynamic_slice(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Starts are clamped by the run-time sizes."""
    array, *starts = operands
    if len(starts) == 1 and starts[0].value.shape.rank == 1:
        raise unsupported(old)
    taken = _clamped(e, array, [s.value for s in starts], old["dynamic_slice_sizes"])
    return Padded(e.clone(old, [array.value, *taken]), {})


@pads("dynamic-update-slice")
def dynamic_update_slice(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Starts are clamped by the run-time sizes; the update must be whole."""
    array, update, *starts = operands
    if update.sizes or (len(starts) == 1 and starts[0].value.shape.rank == 1):
        raise unsupported(old)
    taken = _clamped(e, array, [s.value for s in starts], update.value.shape.dims)
    return Padded(e.clone(old, [array.value, update.value, *taken]), array.sizes)


def _clamped(e: Emitter, array: Padded, starts: list[Instruction], sizes: Sequence[int]) -> list[Instruction]:
    out = []
    for d, start in enumerate(starts):
        size = array.size(d)
        if size is None:
            out.append(start)
            continue
        out.append(clamped(e, start, e.scalar("subtract", size, sizes[d])))
    return of_one_type(e, out)


def of_one_type(e: Emitter, places: list[Instruction]) -> list[Instruction]:
    """Places, of which some are of a narrow type, and those that are `clamped` of none."""
    types = {place.shape.dtype for place in places}
    return places if len(types) == 1 else [e("convert", array_shape(s32, ()), (place,)) for place in places]


def clamped(e: Emitter, start: Instruction, most: Instruction) -> Instruction:
    """A place from 0 to `most`, an s32 scalar, or 0: in its own type, unless that is a narrow one."""
    if start.shape.dtype.bits < s32.bits:
        start = e("convert", array_shape(s32, ()), (start,))
    most = e.scalar("maximum", most, 0)
    if start.shape.dtype is not s32:
        most = e("convert", start.shape, (most,))
    return e("maximum", start.shape, (e("minimum", start.shape, (start, most)), e.zero(start.shape)))


@pads("gather")
def gather(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Starts are clamped by the run-time sizes; slices of what is not indexed are whole."""
    array, indices = operands
    at, offset = old["index_vector_dim"], old["offset_dims"]
    rank = indices.value.shape.rank
    batch = [d for d in range(rank) if d != at]
    out = [d for d in range(old.shape.rank) if d not in offset]
    sizes = {(0, out[batch.index(d)]): s for (_, d), s in indices.sizes.items()}
    gone = (*old["collapsed_slice_dims"], *old["operand_batching_dims"])
    kept = [d for d in range(array.value.shape.rank) if d not in gone]
    starts = indices.value
    for (_, d), size in array.sizes.items():
        if d in old["start_index_map"]:
            starts = _at_most(e, starts, old, d, e.scalar("subtract", size, old["slice_sizes"][d]))
        elif d in kept:
            sizes[0, offset[kept.index(d)]] = size
    return Padded(e.clone(old, [array.value, starts]), sizes)


def _at_most(e: Emitter, starts: Instruction, old: Instruction, dim: int, limit: Instruction) -> Instruction:
    """The starts along one dimension, clamped to a scalar."""
    shape, at = starts.shape, old["index_vector_dim"]
    if shape.dtype is not s32:
        limit = e("convert", array_shape(shape.dtype, ()), (limit,))
    clamped = e("minimum", shape, (starts, e.spread(limit, shape)))
    if at == shape.rank or shape.dims[at] == 1:
        return clamped
    component = e.spread(e.number(old["start_index_map"].index(dim)), shape)
    chosen = e("compare", array_shape(pred, shape.dims), (e.places(shape, at), component), {"direction": "EQ"})
    return e("select", shape, (chosen, clamped, starts))


@pads("reshape", "dynamic-reshape")
def reshape(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Elements in row-major order of the run-time sizes, on both sides."""
    array, *given = operands
    source, target = array.value.shape, static(old.shape)
    if given:
        sizes = [g.value for g in given]
    else:
        sizes = _inferred(e, old, array)
    # position of each element of the result among those that are there
    place = e.spread(e.number(0), target)
    for d in range(target.rank):
        place = e("multiply", place.shape, (place, e.spread(sizes[d], target)))
        place = e("add", place.shape, (place, e.places(target, d)))
    # where that one lies in the operand at its bounds
    at, stride = e.spread(e.number(0), target), 1
    for d in reversed(range(source.rank)):
        size = e.spread(e.scalar("maximum", e.size_of(array, d), 1), target)
        inside = e("remainder", place.shape, (place, size))
        place = e("divide", place.shape, (place, size))
        scaled = e("multiply", inside.shape, (inside, e.spread(e.number(stride), target)))
        at = e("add", at.shape, (at, scaled))
        stride *= source.dims[d]
    flat = e("reshape", array_shape(source.dtype, (source.size,)), (array.value,))
    out = e(
        "gather",
        target,
        (flat, at),
        {
            "offset_dims": (),
            "collapsed_slice_dims": (0,),
            "start_index_map": (0,),
            "index_vector_dim": target.rank,
            "slice_sizes": (1,),
        },
    )
    return Padded(out, {(0, d): sizes[d] for d in range(target.rank) if old.shape.is_dynamic_dimension(d)})


def _inferred(e: Emitter, old: Instruction, array: Padded) -> list[Instruction]:
    """The run-time sizes of a reshape's result: one that is free takes what the others leave."""
    dynamic = [d for d in range(old.shape.rank) if old.shape.is_dynamic_dimension(d)]
    sources = sorted(array.sizes)
    sizes = [e.number(n) for n in old.shape.dims]
    if len(dynamic) > 1 and len(dynamic) == len(sources):
        for d, place in zip(dynamic, sources, strict=True):
            sizes[d] = only(array.sizes[place])
    elif len(dynamic) == 1:
        total = e.number(1)
        for d in range(array.value.shape.rank):
            total = e.scalar("multiply", total, e.size_of(array, d))
        rest = 1
        for d, n in enumerate(old.shape.dims):
            rest *= 1 if d == dynamic[0] else n
        sizes[dynamic[0]] = e.scalar("divide", total, max(rest, 1))
    elif dynamic:
        raise unsupported(old)
    return sizes
