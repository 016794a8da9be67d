"""Gathers: reading at indices that tensors give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xloom.errors import UnsupportedError
from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph, broadcast_dims, normalized
from xloom.torch.lowering.registry import lowers


def counted_from_front(g: Graph, index: Instruction, size: int) -> Instruction:
    """Places as s64; negative ones count from the end."""
    index = g.cast(index, dt.s64)
    return g.select(
        g.compare(index, g.full_like(index, 0), direction="LT"), g.add(index, g.full_like(index, size)), index
    )


def as_column(g: Graph, index: Instruction) -> Instruction:
    """An index with a last dimension of size 1, as gather and scatter take it."""
    return g.reshape_to(index, [*index.shape.dims, 1])


def take_flat(g: Graph, x: Instruction, index: Instruction) -> Instruction:
    """x, as a row of elements, at `index`."""
    flat = g.reshape_to(x, (x.shape.size,))
    return take_along(g, flat, 0, index)


def take_along(g: Graph, x: Instruction, dim: int, index: Instruction) -> Instruction:
    """Whole slices of x at indices along a dimension, which the dimensions of `index` replace."""
    rank, extra = x.shape.rank, index.shape.rank
    if x.shape.dims[dim] == 0 or 0 in x.shape.dims or 0 in index.shape.dims:
        return g.full([*x.shape.dims[:dim], *index.shape.dims, *x.shape.dims[dim + 1 :]], 0, x.shape.dtype)
    return g.gather(
        x,
        as_column(g, index),
        offset_dims=[*range(dim), *range(dim + extra, rank - 1 + extra)],
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        index_vector_dim=extra,
        slice_sizes=[1 if k == dim else s for k, s in enumerate(x.shape.dims)],
    )


@lowers("aten.index_select.default")
def index_select(g: Graph, x, dim: int, index):
    """The slices at `index` along a dimension."""
    if x.shape.rank == 0:
        return x
    index = g.reshape_to(g.cast(index, dt.s64), (index.shape.size,))
    return take_along(g, x, normalized(dim, x.shape.rank), index)


@lowers("aten.embedding.default")
def embedding(g: Graph, weight, indices, padding_idx: int, scale_grad_by_freq: bool, sparse: bool):
    """Rows of a table."""
    return take_along(g, weight, 0, g.cast(indices, dt.s64))


@lowers("aten.gather.default")
def gather(g: Graph, x, dim: int, index, sparse_grad: bool):
    """x at `index` along a dimension, each place in its own line."""
    if x.shape.rank == 0 or index.shape.rank == 0:
        found = take_flat(g, x, g.reshape_to(g.cast(index, dt.s64), (index.shape.size,)))
        return g.reshape_to(found, index.shape.dims)
    dim = normalized(dim, x.shape.rank)
    for k, size in enumerate(index.shape.dims):
        if k != dim:
            x = g.slice_along(x, k, 0, size)
    return gather_lines(g, x, dim, g.cast(index, dt.s64))


def gather_lines(g: Graph, x: Instruction, dim: int, index: Instruction) -> Instruction:
    """x at `index` along a dimension; other dimensions are equal."""
    if 0 in index.shape.dims:  # slices of one element may be longer than x
        return g.full(index.shape.dims, 0, x.shape.dtype)
    others = [k for k in range(x.shape.rank) if k != dim]
    return g.gather(
        x,
        as_column(g, index),
        offset_dims=(),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        index_vector_dim=x.shape.rank,
        slice_sizes=[1] * x.shape.rank,
    )


class Indexed:
    """x[indices] of tensors and gaps: which dimensions are indexed, by what, and where the result has them."""

    def __init__(self, g: Graph, x: Instruction, indices: Sequence[Any]):
        given = [(k, i) for k, i in enumerate(indices) if i is not None]
        if any(i.shape.dtype in (dt.pred, dt.u8) for _, i in given):
            raise UnsupportedError(
                "indexing with a mask: the size of its result depends on the mask's values",
                hint="torch.where(mask, x, 0) has a fixed size",
            )
        self.dims = [k for k, _ in given]
        shape = broadcast_dims(*[i.shape.dims for _, i in given])
        if 0 not in shape and any(x.shape.dims[k] == 0 for k in self.dims):
            raise IndexError("index is out of bounds for dimension with size 0")
        self.shape = shape
        columns = [as_column(g, g.expand(counted_from_front(g, i, x.shape.dims[k]), shape)) for k, i in given]
        self.index = g.concat(columns, len(shape))
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.first = self.dims[0] if adjacent else 0
        rank = x.shape.rank - len(self.dims)
        self.offset_dims = [k if k < self.first else k + len(shape) for k in range(rank)]
        rest = [s for k, s in enumerate(x.shape.dims) if k not in self.dims]
        self.result = [*rest[: self.first], *shape, *rest[self.first :]]


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_(g: Graph, x, indices):
    """x[indices], gaps standing for whole dimensions."""
    if all(i is None for i in indices):
        return x
    indexed = Indexed(g, x, indices)
    if 0 in indexed.result or 0 in x.shape.dims:
        return g.full(indexed.result, 0, x.shape.dtype)
    return g.gather(
        x,
        indexed.index,
        offset_dims=indexed.offset_dims,
        collapsed_slice_dims=indexed.dims,
        start_index_map=indexed.dims,
        index_vector_dim=len(indexed.shape),
        slice_sizes=[1 if k in indexed.dims else s for k, s in enumerate(x.shape.dims)],
    )


@lowers("aten.take.default")
def take(g: Graph, x, index):
    """x, as a row of elements, at `index`."""
    return take_flat(g, x, counted_from_front(g, index, x.shape.size))


@lowers("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(g: Graph, x, boundaries, out_int32: bool, right: bool):
    """How many boundaries are below."""
    return searchsorted(g, boundaries, x, out_int32, right, None, None)


@lowers("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(g: Graph, sorted_sequence, x, out_int32: bool, right: bool, side: str | None, sorter):
    """Where each value would be put in its sorted line: how many elements are before it."""
    size = sorted_sequence.shape.dims[-1]
    target = dt.s32 if out_int32 else dt.s64
    if sorter is not None and size:
        sorted_sequence = gather_lines(g, sorted_sequence, sorted_sequence.shape.rank - 1, g.cast(sorter, dt.s64))
    right = right or side == "right"
    x = x if isinstance(x, Instruction) else g.scalar(x, sorted_sequence.shape.dtype)
    dtype = dt.s32 if size < 1 << 30 else dt.s64
    low, high = g.full(x.shape.dims, 0, dtype), g.full(x.shape.dims, size, dtype)
    for _ in range(size.bit_length()):  # torch's steps, so that what is in no order leads to where it does there
        middle = g.shift_right_logical(g.add(low, high), g.full_like(low, 1))
        place = g.minimum(middle, g.full_like(low, size - 1))
        one = sorted_sequence.shape.rank == 1
        bounds = (
            take_along(g, sorted_sequence, 0, place)
            if one
            else gather_lines(g, sorted_sequence, x.shape.rank - 1, place)
        )
        is_after = g.compare(*g.broadcast_operands(bounds, x), direction="GT" if right else "GE")
        left = g.compare(low, high, direction="LT")
        low = g.select(g.and_(left, g.not_(is_after)), g.add(middle, g.full_like(low, 1)), low)
        high = g.select(g.and_(left, is_after), middle, high)
    return g.cast(low, target)
