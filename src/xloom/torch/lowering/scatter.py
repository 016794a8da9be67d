"""Scatters: writing at indices that tensors give."""

from __future__ import annotations

from xloom.errors import UnsupportedError
from xloom.hlo import dtype as dt
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.lowering.cumulative import running_sum
from xloom.torch.lowering.division import floor_divide
from xloom.torch.lowering.graph import Graph, Number, broadcast_dims, normalized
from xloom.torch.lowering.identity_value import identity_value
from xloom.torch.lowering.index import Indexed, as_column, counted_from_front, gather_lines, take_along, take_flat
from xloom.torch.lowering.promotion import compute_type
from xloom.torch.lowering.registry import lowers

_COMBINE = {
    "sum": "add",
    "add": "add",
    "prod": "multiply",
    "multiply": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


def replacing(g: Graph, dtype: dt.DType) -> Computation:
    """The computation of a scatter that writes over what is there."""
    key = ("replace", dtype)
    if key not in g._regions:
        b = g.subcomputation("replace")
        scalar = array_shape(dtype, ())
        b.parameter(scalar)
        g._regions[key] = b.finish(b.parameter(scalar))
    return g._regions[key]


def _combining(g: Graph, how: str | None, dtype: dt.DType) -> Computation:
    return replacing(g, dtype) if how is None else g.region(_COMBINE[how], dtype)


def put_flat(g: Graph, x: Instruction, places: Instruction, values: Instruction, how: str | None = None) -> Instruction:
    """x, as a row of elements, with values at indices."""
    flat = g.reshape_to(x, (x.shape.size,))
    count = places.shape.size
    done = put_along(g, flat, 0, g.reshape_to(places, (count,)), g.reshape_to(values, (count,)), how)
    return g.reshape_to(done, x.shape.dims)


def put_along(
    g: Graph, x: Instruction, dim: int, index: Instruction, values: Instruction, how: str | None
) -> Instruction:
    """x with whole slices at indices along a dimension; `index` is a vector."""
    if 0 in values.shape.dims or 0 in x.shape.dims:
        return x
    return g.scatter(
        x,
        as_column(g, index),
        values,
        update_window_dims=[k for k in range(x.shape.rank) if k != dim],
        inserted_window_dims=(dim,),
        scatter_dims_to_operand_dims=(dim,),
        index_vector_dim=1,
        to_apply=_combining(g, how, x.shape.dtype),
    )


def scatter_lines(
    g: Graph, x: Instruction, dim: int, index: Instruction, values: Instruction, how: str | None
) -> Instruction:
    """x with values at `index` along a dimension, each place in its own line."""
    if x.shape.rank == 0:
        one = scatter_lines(
            g,
            g.reshape_to(x, (1,)),
            0,
            g.reshape_to(index, (index.shape.size,)),
            g.reshape_to(values, (values.shape.size,)),
            how,
        )
        return g.reshape_to(one, ())
    if index.shape.rank == 0:
        index = g.reshape_to(index, (1,))
        values = values if values.shape.rank else g.reshape_to(values, (1,))
    if 0 in index.shape.dims:
        return x
    dims = index.shape.dims
    for k, size in enumerate(dims):
        values = g.slice_along(values, k, 0, size)
    others = [k for k in range(x.shape.rank) if k != dim]
    whole = others and all(dims[k] == x.shape.dims[k] for k in others)
    if whole and index.opcode == "broadcast" and index["dimensions"] == (dim,):  # one place of all that lies at it
        return put_along(g, x, dim, g.cast(index.operands[0], dt.s64), values, how)
    index = g.cast(index, dt.s64)
    columns = [as_column(g, index if k == dim else g.iota_along(dims, k)) for k in range(x.shape.rank)]
    return g.scatter(
        x,
        g.concat(columns, len(dims)),
        values,
        update_window_dims=(),
        inserted_window_dims=range(x.shape.rank),
        scatter_dims_to_operand_dims=range(x.shape.rank),
        index_vector_dim=len(dims),
        to_apply=_combining(g, how, x.shape.dtype),
    )


def _values(g: Graph, x: Instruction, index: Instruction, src: Instruction | Number) -> Instruction:
    return src if isinstance(src, Instruction) and src.shape.dims else g.full(index.shape.dims, src, x.shape.dtype)


@lowers("aten.scatter.src", "aten.scatter.reduce")
def scatter(g: Graph, x, dim: int, index, src, reduce: str | None = None):
    """x with src at `index` along a dimension."""
    return scatter_lines(g, x, normalized(dim, x.shape.rank), index, _values(g, x, index, src), reduce)


@lowers("aten.scatter.value", "aten.scatter.value_reduce")
def scatter_value(g: Graph, x, dim: int, index, value: Number, reduce: str | None = None):
    """x with a number at `index` along a dimension."""
    values = g.full(index.shape.dims, value, x.shape.dtype)
    return scatter_lines(g, x, normalized(dim, x.shape.rank), index, values, reduce)


@lowers("aten.scatter_add.default")
def scatter_add(g: Graph, x, dim: int, index, src):
    """x with src added at `index` along a dimension."""
    return scatter_lines(g, x, normalized(dim, x.shape.rank), index, _values(g, x, index, src), "add")


@lowers("aten.scatter_reduce.two")
def scatter_reduce(g: Graph, x, dim: int, index, src, reduce: str, include_self: bool):
    """x with src combined at `index` along a dimension."""
    dim = normalized(dim, x.shape.rank)
    src = _values(g, x, index, src)
    return _reduced(g, x, reduce, include_self, lambda a, b, how: scatter_lines(g, a, dim, index, b, how), src)


@lowers("aten.index_reduce.default")
def index_reduce(g: Graph, x, dim: int, index, source, reduce: str, include_self: bool):
    """x with slices of source combined at `index` along a dimension."""
    dim = normalized(dim, x.shape.rank)
    index = g.cast(g.reshape_to(index, (index.shape.size,)), dt.s64)
    if x.shape.rank == 0:
        x1, s1 = g.reshape_to(x, (1,)), g.reshape_to(source, (1,))
        return g.reshape_to(index_reduce(g, x1, 0, index, s1, reduce, include_self), ())
    return _reduced(g, x, reduce, include_self, lambda a, b, how: put_along(g, a, dim, index, b, how), source)


def _reduced(g: Graph, x: Instruction, reduce: str, include_self: bool, put, src: Instruction) -> Instruction:
    own = x.shape.dtype
    x, src = g.widened(x), g.cast(src, compute_type(own))
    how = "sum" if reduce == "mean" else reduce
    start = x
    if not include_self:
        start = put(x, g.full_like(src, identity_value(how, x.shape.dtype)), None)
    result = put(start, src, how)
    if reduce == "mean":
        counts = g.full(x.shape.dims, 1 if include_self else 0, x.shape.dtype)
        counts = put(counts, g.full_like(src, 1), "add")
        counts = g.maximum(counts, g.full_like(counts, 1))
        if own.is_integer:
            result = floor_divide(g, result, counts)
        else:
            result = g.divide(result, counts)
    return g.cast(result, own)


@lowers("aten.index_add.default")
def index_add(g: Graph, x, dim: int, index, source, alpha: Number):
    """x with slices of alpha source added at `index` along a dimension."""
    if x.shape.rank == 0:
        one = index_add(g, g.reshape_to(x, (1,)), 0, index, g.reshape_to(source, (source.shape.size,)), alpha)
        return g.reshape_to(one, ())
    source = source if alpha == 1 else g.multiply(source, g.full_like(source, alpha))
    index = g.cast(g.reshape_to(index, (index.shape.size,)), dt.s64)
    return put_along(g, x, normalized(dim, x.shape.rank), index, source, "add")


@lowers("aten.index_copy.default")
def index_copy(g: Graph, x, dim: int, index, source):
    """x with slices of source at `index` along a dimension."""
    if x.shape.rank == 0:
        one = index_copy(g, g.reshape_to(x, (1,)), 0, index, g.reshape_to(source, (source.shape.size,)))
        return g.reshape_to(one, ())
    index = g.cast(g.reshape_to(index, (index.shape.size,)), dt.s64)
    dim = normalized(dim, x.shape.rank)
    source = g.expand(source, [index.shape.size if k == dim else s for k, s in enumerate(x.shape.dims)])
    return put_along(g, x, dim, index, source, None)


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(g: Graph, x, dim: int, index, value: Instruction | Number):
    """x with one value in the slices at `index` along a dimension."""
    if x.shape.rank == 0:
        return g.full_like(x, value)
    dim = normalized(dim, x.shape.rank)
    index = counted_from_front(g, g.reshape_to(index, (index.shape.size,)), x.shape.dims[dim])
    dims = [index.shape.size if k == dim else s for k, s in enumerate(x.shape.dims)]
    return put_along(g, x, dim, index, g.full(dims, value, x.shape.dtype), None)


@lowers("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(g: Graph, x, indices, values, accumulate: bool):
    """x with values in x[indices]."""
    return _index_put(g, x, indices, values, accumulate)


@lowers("aten._index_put_impl.default")
def index_put_impl(g: Graph, x, indices, values, accumulate: bool, unsafe: bool):
    """The same."""
    return _index_put(g, x, indices, values, accumulate)


def _index_put(g: Graph, x: Instruction, indices, values: Instruction, accumulate: bool) -> Instruction:
    values = g.cast(values, x.shape.dtype)
    given = [(k, i) for k, i in enumerate(indices) if i is not None]
    if not given:
        values = g.expand(values, x.shape.dims)
        return g.add(x, values) if accumulate else values
    if len(given) == 1 and given[0][1].shape.dtype in (dt.pred, dt.u8):
        return _put_masked(g, x, *given[0], values, accumulate)
    indexed = Indexed(g, x, indices)
    if 0 in indexed.result or 0 in x.shape.dims:
        return x
    return g.scatter(
        x,
        indexed.index,
        g.expand(values, indexed.result),
        update_window_dims=indexed.offset_dims,
        inserted_window_dims=indexed.dims,
        scatter_dims_to_operand_dims=indexed.dims,
        index_vector_dim=len(indexed.shape),
        to_apply=_combining(g, "add" if accumulate else None, x.shape.dtype),
    )


def _put_masked(
    g: Graph, x: Instruction, first: int, mask: Instruction, values: Instruction, accumulate: bool
) -> Instruction:
    """x[mask] = values: one value per line where the mask is true, or as many as are true, in their order."""
    dims, rank = x.shape.dims, mask.shape.rank
    rest = len(dims) - first - rank
    own = values.shape.dims
    count = own[-1 - rest] if len(own) > rest else 1
    if count == 1:
        values = g.reshape_to(values, own[max(0, len(own) - rest) :])
        values = g.expand(values, dims)
    else:
        values = g.expand(values, (*dims[:first], count, *dims[first + rank :]))
        values = g.reshape_to(take_along(g, values, first, _places(g, mask, count)), dims)
    where = g.cast(mask, dt.pred)
    where = g.expand(g.reshape_to(where, [*where.shape.dims, *[1] * rest]), dims)
    return g.select(where, g.add(x, values) if accumulate else values, x)


def _places(g: Graph, mask: Instruction, count: int) -> Instruction:
    """Which of `count` values, one for each true element, is for an element of a mask; they are one row."""
    if g.asserted is None:
        raise UnsupportedError(
            "values for a mask: how many are taken depends on the mask's values",
            hint="torch.where(mask, values, x) takes values of the mask's shape",
        )
    nth = running_sum(g, g.cast(g.reshape_to(g.cast(mask, dt.pred), (mask.shape.size,)), dt.s64), 0)
    total = g.reduce_with(nth, "maximum", 0, [0])
    message = f"shape mismatch: {count} values for a mask that has another number of true elements"
    g.asserted.append((g.compare(total, g.full_like(total, count), direction="EQ"), message))
    return g.subtract(nth, g.full_like(nth, 1))


@lowers("aten.put.default")
def put(g: Graph, x, index, source, accumulate: bool):
    """x, as a row of elements, with source at `index`."""
    if index.shape.size == 0:
        return x
    places = counted_from_front(g, index, x.shape.size)
    return put_flat(g, x, places, source, "add" if accumulate else None)


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(g: Graph, x, mask, value: Instruction | Number):
    """x with one value where the mask is true."""
    dims = broadcast_dims(x.shape.dims, mask.shape.dims)
    return g.select(g.expand(g.cast(mask, dt.pred), dims), g.full(dims, value, x.shape.dtype), g.expand(x, dims))


@lowers("aten.masked_scatter.default")
def masked_scatter(g: Graph, x, mask, source):
    """x with the elements of source, in order, where the mask is true."""
    dims = broadcast_dims(x.shape.dims, mask.shape.dims)
    x, mask = g.expand(x, dims), g.expand(g.cast(mask, dt.pred), dims)
    if x.shape.size == 0 or source.shape.size == 0:
        return x
    flat = g.cast(g.reshape_to(mask, (mask.shape.size,)), dt.s64)
    nth = running_sum(g, flat, 0)
    nth = g.subtract(nth, g.full_like(nth, 1))
    return g.select(mask, g.reshape_to(take_flat(g, source, nth), dims), x)


@lowers("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    g: Graph, grad_output, indices, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
):
    """The table's gradient: each row of the result's gradient added where it came from."""
    count = indices.shape.size
    index = g.cast(g.reshape_to(indices, (count,)), dt.s64)
    rows = g.reshape_to(grad_output, [count, grad_output.shape.dims[-1]])
    own = rows.shape.dtype
    rows = g.widened(rows)
    if scale_grad_by_freq:
        counts = put_along(
            g, g.full((num_weights,), 0, rows.shape.dtype), 0, index, g.full((count,), 1, rows.shape.dtype), "add"
        )
        counts = gather_lines(g, counts, 0, index)
        rows = g.divide(rows, g.expand(as_column(g, counts), rows.shape.dims))
    if padding_idx >= 0:
        keep = g.compare(index, g.full_like(index, padding_idx), direction="NE")
        rows = g.select(g.expand(as_column(g, keep), rows.shape.dims), rows, g.full_like(rows, 0))
    table = g.full((num_weights, rows.shape.dims[1]), 0, rows.shape.dtype)
    return g.cast(put_along(g, table, 0, index, rows, "add"), own)


@lowers("aten.embedding_renorm.default")
def embedding_renorm(g: Graph, x, indices, max_norm: float, norm_type: float):
    """A table whose rows at `indices` are no longer than `max_norm`."""
    rows, own = x.shape.dims[0], x.shape.dtype
    wide = g.widened(x)
    index = g.cast(g.reshape_to(indices, (indices.shape.size,)), dt.s64)
    asked = put_along(g, g.full((rows,), False, dt.pred), 0, index, g.full(index.shape.dims, True, dt.pred), None)
    size = g.abs(wide)
    if norm_type == float("inf"):
        norm = g.reduce_with(size, "maximum", 0, [1])
    else:
        total = g.reduce_with(g.power(size, g.full_like(size, norm_type)), "add", 0, [1])
        norm = g.power(total, g.full_like(total, 1 / norm_type))
    limit = g.full_like(norm, max_norm)
    scale = g.divide(limit, g.add(norm, g.full_like(norm, 1e-7)))
    scale = g.select(g.and_(asked, g.compare(norm, limit, direction="GT")), scale, g.full_like(scale, 1))
    return g.cast(g.multiply(wide, g.expand(as_column(g, scale), wide.shape.dims)), own)
