"""Views and what else only moves elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.lowering.graph import Graph, Number, normalized
from xloom.torch.lowering.promotion import result_type
from xloom.torch.lowering.registry import lowers
from xloom.torch.strides import elements, overlap


def resolved(sizes: Sequence[int], count: int) -> list[int]:
    """Sizes with -1 replaced by what is left of `count` elements."""
    known = math.prod(s for s in sizes if s != -1)
    return [count // max(known, 1) if s == -1 else s for s in sizes]


@lowers("aten.view.default", "aten._unsafe_view.default")
def view(g: Graph, x, size):
    """x under other dimensions."""
    return g.reshape_to(x, resolved(size, x.shape.size))


@lowers("aten.reshape.default")
def reshape(g: Graph, x, shape):
    """x under other dimensions."""
    return g.reshape_to(x, resolved(shape, x.shape.size))


@lowers("aten._reshape_alias.default")
def reshape_alias(g: Graph, x, size, stride):
    """x under other dimensions."""
    return g.reshape_to(x, size)


@lowers("aten.alias.default", "aten.detach.default")
def alias(g: Graph, x):
    """x."""
    return x


@lowers("aten.expand.default")
def expand(g: Graph, x, size, implicit):
    """x repeated; -1 keeps a dimension's size."""
    start = len(size) - x.shape.rank
    return g.expand(x, [x.shape.dims[k - start] if s == -1 else s for k, s in enumerate(size)])


@lowers("aten.permute.default")
def permute(g: Graph, x, dims):
    """Dimension i of the result is dimension dims[i] of x."""
    return g.permute(x, [normalized(d, x.shape.rank) for d in dims])


@lowers("aten.t.default")
def t(g: Graph, x):
    """The transpose of a matrix; a vector stays."""
    return g.permute(x, list(range(x.shape.rank))[::-1])


@lowers("aten.transpose.int")
def transpose(g: Graph, x, dim0: int, dim1: int):
    """Two dimensions exchanged."""
    return swapped(g, x, normalized(dim0, x.shape.rank), normalized(dim1, x.shape.rank))


def swapped(g: Graph, x: Instruction, a: int, b: int) -> Instruction:
    """Two dimensions exchanged."""
    if x.shape.rank == 0:
        return x
    order = list(range(x.shape.rank))
    order[a], order[b] = b, a
    return g.permute(x, order)


@lowers("aten.unsqueeze.default")
def unsqueeze(g: Graph, x, dim: int):
    """A new dimension of size 1."""
    dims = list(x.shape.dims)
    dims.insert(normalized(dim, x.shape.rank + 1), 1)
    return g.reshape_to(x, dims)


@lowers("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(g: Graph, x, dim: int | Sequence[int] | None = None):
    """Without dimensions of size 1."""
    rank = x.shape.rank
    chosen = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {normalized(d, rank) for d in chosen}
    return g.reshape_to(x, [s for k, s in enumerate(x.shape.dims) if s != 1 or k not in gone])


@lowers("aten.select.int")
def select(g: Graph, x, dim: int, index: int):
    """One place along a dimension, which goes."""
    dim = normalized(dim, x.shape.rank)
    if isinstance(index, Instruction):
        starts = [index if k == dim else g.scalar(0, dt.s64) for k in range(x.shape.rank)]
        sizes = [1 if k == dim else s for k, s in enumerate(x.shape.dims)]
        part = g.dynamic_slice(x, *starts, shape=x.shape.dtype[tuple(sizes)], dynamic_slice_sizes=sizes)
    else:
        at = index + x.shape.dims[dim] if index < 0 else index
        part = g.slice_along(x, dim, at, at + 1)
    return g.reshape_to(part, [s for k, s in enumerate(x.shape.dims) if k != dim])


def slice_range(size: int, start: int | None, end: int | None, step: int) -> tuple[int, int]:
    """Where x[start:end] begins and ends in a dimension of this size."""
    first, last, _ = slice(start, end, step).indices(size)
    return first, max(first, last)


@lowers("aten.slice.Tensor")
def slice_(g: Graph, x, dim: int, start: int | None, end: int | None, step: int):
    """x[start:end:step] along a dimension."""
    dim = normalized(dim, x.shape.rank)
    return g.slice_along(x, dim, *slice_range(x.shape.dims[dim], start, end, step), step)


@lowers("aten.slice_scatter.default")
def slice_scatter(g: Graph, x, src, dim: int, start: int | None, end: int | None, step: int):
    """x with src in x[start:end:step]."""
    dim = normalized(dim, x.shape.rank)
    size = x.shape.dims[dim]
    first, last = slice_range(size, start, end, step)
    count = -(-(last - first) // step)
    if count == 0:
        return x
    src = g.expand(g.cast(src, x.shape.dtype), [count if k == dim else s for k, s in enumerate(x.shape.dims)])
    if count == size:
        return src
    if src.opcode == "slice" and src.operands[0] is x and src["slice"][dim] == (first, last, step):
        return x  # torch stores a view again that was changed in place
    dims = x.shape.dims
    if step == 1:
        return _written(g, x, src, {dim: first})
    if size % step == 0:  # groups of `step` elements, of some of which one is written
        groups = g.reshape_to(x, [*dims[:dim], size // step, step, *dims[dim + 1 :]])
        part = g.reshape_to(src, [*dims[:dim], count, 1, *dims[dim + 1 :]])
        return g.reshape_to(_written(g, groups, part, {dim: first // step, dim + 1: first % step}), dims)
    spread = [(0, 0, 0)] * x.shape.rank
    spread[dim] = (first, size - (first + (count - 1) * step + 1), step - 1)
    is_written = g.pad_with(g.full(src.shape.dims, True, dt.pred), spread, False)
    return g.select(is_written, g.pad_with(src, spread, 0), x)


def _written(g: Graph, x: Instruction, part: Instruction, places: Mapping[int, int]) -> Instruction:
    """x with a part of it written, which begins at these places along dimensions, along others at the first."""
    starts = [g.scalar(places.get(d, 0), dt.s64) for d in range(x.shape.rank)]
    return g.dynamic_update_slice(x, part, *starts, shape=x.shape)


@lowers("aten.select_scatter.default")
def select_scatter(g: Graph, x, src, dim: int, index: int):
    """x with src at one place along a dimension."""
    dim = normalized(dim, x.shape.rank)
    at = index + x.shape.dims[dim] if index < 0 else index
    return slice_scatter(g, x, unsqueeze(g, src, dim), dim, at, at + 1, 1)


@lowers("aten.slice_backward.default")
def slice_backward(g: Graph, grad_output, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int):
    """The gradient of x[start:end:step]."""
    zeros = g.full(input_sizes, 0, grad_output.shape.dtype)
    return slice_scatter(g, zeros, grad_output, dim, start, end, step)


@lowers("aten.select_backward.default")
def select_backward(g: Graph, grad_output, input_sizes: Sequence[int], dim: int, index: int):
    """The gradient of one place along a dimension."""
    return select_scatter(g, g.full(input_sizes, 0, grad_output.shape.dtype), grad_output, dim, index)


@lowers("aten.split.Tensor", "aten.unsafe_split.Tensor")
def split(g: Graph, x, split_size: int, dim: int):
    """Parts of one size; the last may be smaller."""
    dim = normalized(dim, x.shape.rank)
    size = x.shape.dims[dim]
    starts = range(0, size, split_size) if split_size else [0]
    return [g.slice_along(x, dim, k, min(size, k + split_size)) for k in starts] or [x]


@lowers("aten.split_with_sizes.default", "aten.unsafe_split_with_sizes.default")
def split_with_sizes(g: Graph, x, split_sizes: Sequence[int], dim: int):
    """Parts of these sizes."""
    dim = normalized(dim, x.shape.rank)
    ends = np.cumsum(split_sizes).tolist()
    return [g.slice_along(x, dim, e - s, e) for s, e in zip(split_sizes, ends, strict=True)]


@lowers("aten.unbind.int")
def unbind(g: Graph, x, dim: int):
    """Every place along a dimension."""
    return [select(g, x, dim, k) for k in range(x.shape.dims[normalized(dim, x.shape.rank)])]


@lowers("aten.cat.default")
def cat(g: Graph, tensors, dim: int):
    """Joined along a dimension; empty vectors are passed over."""
    dtype = result_type(*tensors)
    parts = [p for p in tensors if p.shape.dims != (0,)] or tensors[:1]
    return g.concat([g.cast(p, dtype) for p in parts], normalized(dim, parts[0].shape.rank))


@lowers("aten._chunk_cat.default")
def chunk_cat(g: Graph, tensors, dim: int, num_chunks: int):
    """Each cut into chunks along a dimension, the last filled up with zeros; the chunks of all joined, as rows."""
    dim = normalized(dim, tensors[0].shape.rank)
    rows = []
    for x in tensors:
        padded = g.pad_with(x, [(0, -size % num_chunks if k == dim else 0) for k, size in enumerate(x.shape.dims)], 0)
        lead = x.shape.dims[:dim]
        rows.append(g.reshape_to(padded, (*lead, num_chunks, padded.shape.size // math.prod((*lead, num_chunks)))))
    return cat(g, rows, dim + 1)


@lowers("aten.stack.default")
def stack(g: Graph, tensors, dim: int):
    """Joined along a new dimension."""
    return cat(g, [unsqueeze(g, p, dim) for p in tensors], normalized(dim, tensors[0].shape.rank + 1))


@lowers("aten.repeat.default")
def repeat(g: Graph, x, repeats):
    """x so many times along each dimension."""
    dims = [1] * (len(repeats) - x.shape.rank) + list(x.shape.dims)
    between = [s for pair in zip([1] * len(dims), dims, strict=True) for s in pair]
    repeated = [s for pair in zip(repeats, dims, strict=True) for s in pair]
    x = g.expand(g.reshape_to(x, between), repeated)
    return g.reshape_to(x, [r * d for r, d in zip(repeats, dims, strict=True)])


@lowers("aten.flip.default")
def flip(g: Graph, x, dims):
    """Reversed along dimensions."""
    chosen = sorted({normalized(d, x.shape.rank) for d in dims} & set(range(x.shape.rank)))
    return g.reverse(x, dimensions=chosen) if chosen else x


@lowers("aten.roll.default")
def roll(g: Graph, x, shifts, dims):
    """Rotated along dimensions, or, without them, as one row."""
    if not x.shape.size:  # torch does not look at the dimensions then
        return x
    if not dims:
        flat = g.reshape_to(x, (x.shape.size,))
        return g.reshape_to(roll(g, flat, shifts, [0]), x.shape.dims)
    for shift, dim in zip(shifts, dims, strict=True):
        dim = normalized(dim, x.shape.rank)
        size = x.shape.dims[dim]
        if size and shift % size:
            cut = size - shift % size
            x = g.concat([g.slice_along(x, dim, cut, size), g.slice_along(x, dim, 0, cut)], dim)
    return x


@lowers("aten.constant_pad_nd.default")
def constant_pad(g: Graph, x, pad, value: Number):
    """Padded, the last dimension first; negative edges cut."""
    padding = [(0, 0)] * x.shape.rank
    for k in range(len(pad) // 2):
        padding[x.shape.rank - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return g.pad_with(x, padding, value)


@lowers("aten.tril.default")
def tril(g: Graph, x, diagonal: int):
    """The elements on and below a diagonal; zeros elsewhere."""
    return _triangle(g, x, diagonal, "GE")


@lowers("aten.triu.default")
def triu(g: Graph, x, diagonal: int):
    """The elements on and above a diagonal; zeros elsewhere."""
    return _triangle(g, x, diagonal, "LE")


def _triangle(g: Graph, x: Instruction, diagonal: int, direction: str) -> Instruction:
    rank = x.shape.rank
    row, column = g.iota_along(x.shape.dims, rank - 2), g.iota_along(x.shape.dims, rank - 1)
    shifted = g.add(row, g.full_like(row, diagonal))
    return g.select(g.compare(shifted, column, direction=direction), x, g.full_like(x, 0))


@lowers("aten.diagonal.default")
def diagonal(g: Graph, x, offset: int, dim1: int, dim2: int):
    """A diagonal of two dimensions, as a last one."""
    rank = x.shape.rank
    a, b = normalized(dim1, rank), normalized(dim2, rank)
    rest = [k for k in range(rank) if k not in (a, b)]
    x = g.permute(x, [*rest, a, b])
    rows, columns = x.shape.dims[-2:]
    row, column = max(0, -offset), max(0, offset)
    count = max(0, min(rows - row, columns - column))
    if count == 0:
        return g.full([*x.shape.dims[:-2], 0], 0, x.shape.dtype)
    # the diagonal of a square lies every count + 1 elements
    x = g.slice_along(g.slice_along(x, rank - 2, row, row + count), rank - 1, column, column + count)
    flat = g.reshape_to(x, [*x.shape.dims[:-2], count * count])
    return g.slice_along(flat, rank - 2, 0, count * count, count + 1)


@lowers("aten.diagonal_scatter.default")
def diagonal_scatter(g: Graph, x, src, offset: int, dim1: int, dim2: int):
    """x with src on a diagonal."""
    rank = x.shape.rank
    a, b = normalized(dim1, rank), normalized(dim2, rank)
    rest = [k for k in range(rank) if k not in (a, b)]
    row, column = max(0, -offset), max(0, offset)
    rows, columns = x.shape.dims[a], x.shape.dims[b]
    count = max(0, min(rows - row, columns - column))
    if count == 0:
        return x
    # src in every column of its row, then only where row and column meet
    wide = g.expand(g.reshape_to(src, [*src.shape.dims, 1]), [*src.shape.dims, columns])
    padding = [(0, 0)] * (rank - 2) + [(row, rows - row - count), (0, 0)]
    wide = g.pad_with(wide, padding, 0)
    order = [*rest, a, b]
    wide = g.permute(wide, [order.index(k) for k in range(rank)])
    i, j = g.iota_along(x.shape.dims, a), g.iota_along(x.shape.dims, b)
    on = g.compare(g.add(i, g.full_like(i, offset)), j, direction="EQ")
    return g.select(on, g.cast(wide, x.shape.dtype), x)


@lowers("aten.diag_embed.default")
def diag_embed(g: Graph, x, offset: int, dim1: int, dim2: int):
    """The last dimension as a diagonal of two."""
    rank = x.shape.rank + 1
    a, b = normalized(dim1, rank), normalized(dim2, rank)
    size = x.shape.dims[-1] + abs(offset)
    rest = iter(x.shape.dims[:-1])
    dims = [size if k in (a, b) else next(rest) for k in range(rank)]
    return diagonal_scatter(g, g.full(dims, 0, x.shape.dtype), x, offset, a, b)


def strided_places(size: Sequence[int], stride: Sequence[int], offset: int) -> np.ndarray:
    """Where the elements of a strided view lie in its base's row of elements."""
    return elements(size, stride, offset).reshape(tuple(size))


@lowers("aten.as_strided.default")
def as_strided(g: Graph, x, size, stride, storage_offset: int | None):
    """A view of the row of x's elements."""
    from xloom.torch.lowering.index import take_flat

    if math.prod(size) == x.shape.size and list(stride) == _dense(size) and not storage_offset:
        return g.reshape_to(x, size)
    places = strided_places(size, stride, storage_offset or 0)
    return take_flat(g, x, g.literal(places))


@lowers("aten.as_strided_scatter.default")
def as_strided_scatter(g: Graph, x, src, size, stride, storage_offset: int | None):
    """x with src in a strided view."""
    from xloom.torch.lowering.scatter import put_flat

    places = g.literal(strided_places(size, stride, storage_offset or 0))
    src = g.expand(g.cast(src, x.shape.dtype), size)
    if overlap(size, stride):
        # of the elements for one place some may be what was there before a write to a part of the view: they go nowhere
        before = as_strided(g, x, size, stride, storage_offset)
        places = g.select(_differ(g, src, before), places, g.full_like(places, x.shape.size))
    return put_flat(g, x, places, src)


def _differ(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """Where the bits of two arrays are not the same."""
    dtype = a.shape.dtype
    if dtype.is_complex:
        return g.or_(_differ(g, g.real(a), g.real(b)), _differ(g, g.imag(a), g.imag(b)))
    if dtype.is_float:
        bits = array_shape(dt.dtype(f"u{dtype.bits}"), a.shape.dims)
        a, b = g.bitcast_convert(a, shape=bits), g.bitcast_convert(b, shape=bits)
    return g.compare(a, b, direction="NE")


def _dense(size: Sequence[int]) -> list[int]:
    return [math.prod(size[k + 1 :]) for k in range(len(size))]


@lowers("aten.unfold.default")
def unfold(g: Graph, x, dimension: int, size: int, step: int):
    """Windows along a dimension, their elements as a last one."""
    dim = normalized(dimension, x.shape.rank)
    if x.shape.rank == 0:
        return g.reshape_to(x, (1,))
    count = (x.shape.dims[dim] - size) // step + 1
    if size == 0:
        return g.full([*x.shape.dims[:dim], count, *x.shape.dims[dim + 1 :], 0], 0, x.shape.dtype)
    starts = g.iota_along((count, 1), 0)
    windows = g.gather(
        x,
        g.multiply(starts, g.full_like(starts, step)),
        offset_dims=[k for k in range(x.shape.rank + 1) if k != dim],
        collapsed_slice_dims=(),
        start_index_map=(dim,),
        index_vector_dim=1,
        slice_sizes=[size if k == dim else n for k, n in enumerate(x.shape.dims)],
    )
    return g.permute(windows, [k for k in range(windows.shape.rank) if k != dim + 1] + [dim + 1])


@lowers("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(g: Graph, x, groups: int):
    """Channels dealt out from groups in turn."""
    n, c, *rest = x.shape.dims
    return g.reshape_to(swapped(g, g.reshape_to(x, [n, groups, c // groups, *rest]), 1, 2), x.shape.dims)
