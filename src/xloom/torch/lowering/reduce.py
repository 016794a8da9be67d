"""Sums and other reductions over dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering.graph import Graph, Number, normalized, normalized_dims
from xloom.torch.lowering.identity_value import identity_value
from xloom.torch.lowering.promotion import compute_type, default_float
from xloom.torch.lowering.registry import lowers


def kept(g: Graph, result: Instruction, dims: Sequence[int], keepdim: bool, reduced: Sequence[int]) -> Instruction:
    """A reduction's result with the dimensions that it has reduced as ones, if they are kept."""
    return g.reshape_to(result, [1 if k in reduced else d for k, d in enumerate(dims)]) if keepdim else result


def summed_dtype(x: Instruction, dtype: torch.dtype | None) -> dt.DType:
    """The dtype of a sum or product: s64 for integers, unless one is asked for."""
    own = x.shape.dtype
    return hlo_dtype(dtype) if dtype else dt.s64 if own is dt.pred or own.is_integer else own


@lowers("aten.sum.default", "aten.sum.dim_IntList")
def sum_(g: Graph, x, dim=None, keepdim=False, dtype: torch.dtype | None = None):
    """The sum over dimensions; integers add up as s64, narrow floats as f32."""
    target = summed_dtype(x, dtype)
    dims = normalized_dims(dim, x.shape.rank)
    total = g.reduce_with(g.cast(x, compute_type(target)), "add", 0, dims)
    return kept(g, g.cast(total, target), x.shape.dims, keepdim, dims)


@lowers("aten.mean.default", "aten.mean.dim")
def mean(g: Graph, x, dim=None, keepdim=False, dtype: torch.dtype | None = None):
    """The mean over dimensions."""
    target = hlo_dtype(dtype) if dtype else x.shape.dtype
    dims = normalized_dims(dim, x.shape.rank)
    count = math.prod(x.shape.dims[d] for d in dims)
    total = g.reduce_with(g.cast(x, compute_type(target)), "add", 0, dims)
    return kept(g, g.cast(g.divide(total, g.full_like(total, count)), target), x.shape.dims, keepdim, dims)


@lowers("aten.prod.default", "aten.prod.dim_int")
def prod(g: Graph, x, dim: int | None = None, keepdim=False, dtype: torch.dtype | None = None):
    """The product over dimensions."""
    target = summed_dtype(x, dtype)
    dims = normalized_dims(dim, x.shape.rank)
    product = g.reduce_with(g.cast(x, compute_type(target)), "multiply", 1, dims)
    return kept(g, g.cast(product, target), x.shape.dims, keepdim, dims)


@lowers("aten.amax.default")
def amax(g: Graph, x, dim, keepdim: bool):
    """The greatest over dimensions."""
    return _extreme(g, x, dim, keepdim, "maximum", "amax")


@lowers("aten.amin.default")
def amin(g: Graph, x, dim, keepdim: bool):
    """The least over dimensions."""
    return _extreme(g, x, dim, keepdim, "minimum", "amin")


@lowers("aten.max.default")
def max_(g: Graph, x):
    """The greatest."""
    return _extreme(g, x, None, False, "maximum", "amax")


@lowers("aten.min.default")
def min_(g: Graph, x):
    """The least."""
    return _extreme(g, x, None, False, "minimum", "amin")


def _extreme(g: Graph, x: Instruction, dim, keepdim: bool, opcode: str, how: str) -> Instruction:
    dims = normalized_dims(dim, x.shape.rank)
    return kept(g, g.reduce_with(x, opcode, identity_value(how, x.shape.dtype), dims), x.shape.dims, keepdim, dims)


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(g: Graph, x, dim=None, keepdim=False):
    """Whether an element is not zero."""
    return _logical(g, x, dim, keepdim, "or", False)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(g: Graph, x, dim=None, keepdim=False):
    """Whether no element is zero."""
    return _logical(g, x, dim, keepdim, "and", True)


def _logical(g: Graph, x: Instruction, dim, keepdim: bool, opcode: str, initial: bool) -> Instruction:
    dims = normalized_dims(dim, x.shape.rank) if not (isinstance(dim, list) and not dim) else []
    result = g.reduce_with(g.cast(x, dt.pred), opcode, initial, dims)
    return g.cast(kept(g, result, x.shape.dims, keepdim, dims), dt.u8 if x.shape.dtype is dt.u8 else dt.pred)


@lowers("aten.hash_tensor.default")
def hash_tensor(g: Graph, x, dim, keepdim: bool, mode: int):
    """The exclusive or of the bits of the elements, as numbers of 64 bits."""
    dims = normalized_dims(dim, x.shape.rank)
    wide = g.cast(x, dt.f64 if x.shape.dtype.is_float else dt.s64)
    bits = g.bitcast_convert(wide, shape=wide.shape.with_dtype(dt.u64))
    return kept(g, g.reduce_with(bits, "xor", 0, dims), x.shape.dims, keepdim, dims)


def extreme_with_index(g: Graph, x: Instruction, dim: int, largest: bool) -> tuple[Instruction, Instruction]:
    """The greatest (or least) along a dimension and where it first is; NaN is beyond both."""
    dtype = x.shape.dtype
    places = g.iota_along(x.shape.dims, dim)
    key = ("with_index", largest, dtype)
    if key not in g._regions:
        r = g.subgraph("better")
        scalar, place = array_shape(dtype, ()), dt.s64[()]
        a, i = r.parameter(scalar), r.parameter(place)
        b, j = r.parameter(scalar), r.parameter(place)
        better = r.compare(a, b, direction="GT" if largest else "LT")
        if dtype.is_float:
            nan, other_nan = r.compare(a, a, direction="NE"), r.compare(b, b, direction="NE")
            better = r.or_(better, r.and_(nan, r.not_(other_nan)))
            same = r.or_(r.compare(a, b, direction="EQ"), r.and_(nan, other_nan))
        else:
            same = r.compare(a, b, direction="EQ")
        better = r.or_(better, r.and_(same, r.compare(i, j, direction="LT")))
        root = r.tuple(r.select(better, a, b), r.select(better, i, j))
        g._regions[key] = r.builder.finish(root)
    initial = g.scalar(identity_value("amax" if largest else "amin", dtype), dtype)
    both = g.reduce(x, places, initial, g.scalar(0, dt.s64), dimensions=(dim,), to_apply=g._regions[key])
    return g.get_tuple_element(both, index=0), g.get_tuple_element(both, index=1)


@lowers("aten.max.dim")
def max_dim(g: Graph, x, dim: int, keepdim: bool):
    """The greatest along a dimension, and where it is."""
    return _extreme_dim(g, x, dim, keepdim, True)


@lowers("aten.min.dim")
def min_dim(g: Graph, x, dim: int, keepdim: bool):
    """The least along a dimension, and where it is."""
    return _extreme_dim(g, x, dim, keepdim, False)


def _extreme_dim(g: Graph, x: Instruction, dim: int, keepdim: bool, largest: bool) -> list[Instruction]:
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    dim = normalized(dim, x.shape.rank)
    values, places = extreme_with_index(g, x, dim, largest)
    return [kept(g, r, x.shape.dims, keepdim, [dim]) for r in (values, places)]


@lowers("aten.argmax.default")
def argmax(g: Graph, x, dim: int | None, keepdim: bool):
    """Where the greatest is."""
    return _arg(g, x, dim, keepdim, True)


@lowers("aten.argmin.default")
def argmin(g: Graph, x, dim: int | None, keepdim: bool):
    """Where the least is."""
    return _arg(g, x, dim, keepdim, False)


def _arg(g: Graph, x: Instruction, dim: int | None, keepdim: bool, largest: bool) -> Instruction:
    if dim is not None:
        return _extreme_dim(g, x, dim, keepdim, largest)[1]
    _, place = extreme_with_index(g, g.reshape_to(x, (x.shape.size,)), 0, largest)
    return g.reshape_to(place, [1] * x.shape.rank) if keepdim else place


def moments(
    g: Graph, x: Instruction, dims: Sequence[int], correction: Number | None
) -> tuple[Instruction, Instruction]:
    """Variance (real) and mean over dimensions, both kept as ones, in the type that torch computes in."""
    count = math.prod(x.shape.dims[d] for d in dims)
    x = g.widened(x)
    total = g.reduce_with(x, "add", 0, dims)
    average = g.divide(total, g.full_like(total, count))
    average = g.reshape_to(average, [1 if k in dims else d for k, d in enumerate(x.shape.dims)])
    off = g.subtract(x, g.expand(average, x.shape.dims))
    squares = (
        g.real(g.multiply(off, g.complex(g.real(off), g.negate(g.imag(off)))))
        if x.shape.dtype.is_complex
        else g.multiply(off, off)
    )
    squared = g.reduce_with(squares, "add", 0, dims)
    degrees = max(0.0, count - (1 if correction is None else float(correction)))  # type: ignore[arg-type]
    degrees = degrees if count else 0.0  # NaN, also where the correction is below 0
    spread = g.divide(squared, g.full_like(squared, degrees))
    return g.reshape_to(spread, average.shape.dims), average


@lowers("aten.var.correction")
def var(g: Graph, x, dim, correction: Number | None, keepdim: bool):
    """The variance over dimensions."""
    return _spread(g, x, dim, correction, keepdim)[0]


@lowers("aten.var_mean.correction")
def var_mean(g: Graph, x, dim, correction: Number | None, keepdim: bool):
    """Variance and mean over dimensions."""
    return _spread(g, x, dim, correction, keepdim)


@lowers("aten.std.correction")
def std(g: Graph, x, dim, correction: Number | None, keepdim: bool):
    """The standard deviation over dimensions."""
    return _spread(g, x, dim, correction, keepdim, root=True)[0]


def _spread(g: Graph, x, dim, correction, keepdim: bool, root: bool = False) -> list[Instruction]:
    dims = normalized_dims(dim, x.shape.rank)
    spread, average = moments(g, x, dims, correction)
    spread = g.sqrt(spread) if root else spread
    own = x.shape.dtype
    wanted = x.shape.dims if keepdim else None
    rest = [d for k, d in enumerate(x.shape.dims) if k not in dims]
    shape = spread.shape.dims if wanted else rest
    return [g.reshape_to(g.cast(spread, own.real), shape), g.reshape_to(g.cast(average, own), shape)]


@lowers("aten.linalg_vector_norm.default")
def vector_norm(g: Graph, x, ord: Number, dim, keepdim: bool, dtype: torch.dtype | None):
    """(sum |x|^ord)^(1/ord) over dimensions, with its limits."""
    x = g.cast(x, hlo_dtype(dtype)) if dtype else x
    if x.shape.dtype.is_integer or x.shape.dtype is dt.pred:
        x = g.cast(x, default_float())
    own = x.shape.dtype.real
    dims = normalized_dims(dim, x.shape.rank)
    size = g.widened(g.abs(x))
    order = float(ord)  # type: ignore[arg-type]
    if order == math.inf:
        result = g.reduce_with(size, "maximum", float("-inf") if size.shape.size else 0, dims)
    elif order == -math.inf:
        result = g.reduce_with(size, "minimum", float("inf"), dims)
    elif order == 0:
        ones = g.cast(g.compare(size, g.full_like(size, 0), direction="NE"), size.shape.dtype)
        result = g.reduce_with(ones, "add", 0, dims)
    elif order == 1:
        result = g.reduce_with(size, "add", 0, dims)
    elif order == 2:
        result = g.sqrt(g.reduce_with(g.multiply(size, size), "add", 0, dims))
    else:
        total = g.reduce_with(g.power(size, g.full_like(size, order)), "add", 0, dims)
        result = g.power(total, g.full_like(total, 1 / order))
    return kept(g, g.cast(result, own), x.shape.dims, keepdim, dims)


@lowers("aten.count_nonzero.dim_IntList", "aten.count_nonzero.default")
def count_nonzero(g: Graph, x, dim=None):
    """How many elements are not zero."""
    return sum_(g, g.cast(x, dt.pred), dim)


@lowers("aten.logsumexp.default")
def logsumexp(g: Graph, x, dim, keepdim: bool):
    """log(sum(e^x)) over dimensions, without overflow."""
    x = x if x.shape.dtype.is_float or x.shape.dtype.is_complex else g.cast(x, default_float())
    own = x.shape.dtype
    dims = normalized_dims(dim, x.shape.rank)
    x = g.widened(x)
    ones = [1 if k in dims else d for k, d in enumerate(x.shape.dims)]
    real = g.real(x) if own.is_complex else x
    top = g.reshape_to(g.reduce_with(real, "maximum", float("-inf"), dims), ones)
    top = g.select(g.is_finite(top), top, g.full_like(top, 0))
    shifted = g.subtract(x, g.expand(g.cast(top, x.shape.dtype), x.shape.dims))
    total = g.reshape_to(g.reduce_with(g.exponential(shifted), "add", 0, dims), ones)
    result = g.cast(g.add(g.log(total), g.cast(top, x.shape.dtype)), own)
    return result if keepdim else g.reshape_to(result, [d for k, d in enumerate(x.shape.dims) if k not in dims])
