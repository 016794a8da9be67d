"""Prefix scans along a dimension."""

from __future__ import annotations

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.attributes import WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.lowering.graph import Graph, Number, normalized
from xloom.torch.lowering.identity_value import identity_value
from xloom.torch.lowering.promotion import compute_type
from xloom.torch.lowering.reduce import summed_dtype
from xloom.torch.lowering.registry import lowers


def _window(dims: tuple[int, ...], dim: int) -> list[WindowDimension]:
    size = dims[dim]
    return [WindowDimension(size if k == dim else 1, 1, size - 1 if k == dim else 0, 0) for k in range(len(dims))]


def running(g: Graph, x: Instruction, dim: int, opcode: str, initial: Number) -> Instruction:
    """Element k is the reduction of the elements up to k along a dimension."""
    if x.shape.rank == 0 or x.shape.size == 0:
        return x
    dtype = x.shape.dtype
    window = _window(x.shape.dims, dim)
    return g.reduce_window(x, g.scalar(initial, dtype), window=window, to_apply=g.region(opcode, dtype))


def running_sum(g: Graph, x: Instruction, dim: int) -> Instruction:
    """The sums of the elements up to each."""
    return running(g, x, dim, "add", 0)


@lowers("aten.cumsum.default")
def cumsum(g: Graph, x, dim: int, dtype: torch.dtype | None):
    """Running sums."""
    target = summed_dtype(x, dtype)
    wide = g.cast(x, compute_type(target))
    return g.cast(running(g, wide, normalized(dim, x.shape.rank), "add", 0), target)


@lowers("aten.cumprod.default")
def cumprod(g: Graph, x, dim: int, dtype: torch.dtype | None):
    """Running products."""
    target = summed_dtype(x, dtype)
    wide = g.cast(x, compute_type(target))
    return g.cast(running(g, wide, normalized(dim, x.shape.rank), "multiply", 1), target)


@lowers("aten.cummax.default")
def cummax(g: Graph, x, dim: int):
    """Running maxima and where they last are."""
    return _running_extreme(g, x, dim, True)


@lowers("aten.cummin.default")
def cummin(g: Graph, x, dim: int):
    """Running minima and where they last are."""
    return _running_extreme(g, x, dim, False)


def _running_extreme(g: Graph, x: Instruction, dim: int, largest: bool) -> list[Instruction]:
    if x.shape.rank == 0 or x.shape.size == 0:
        return [x, g.full(x.shape.dims, 0, dt.s64)]
    dim = normalized(dim, x.shape.rank)
    dtype = x.shape.dtype
    key = ("running", largest, dtype)
    if key not in g._regions:
        r = g.subgraph("later_if_not_worse")
        scalar, place = array_shape(dtype, ()), dt.s64[()]
        a, i, b, j = r.parameter(scalar), r.parameter(place), r.parameter(scalar), r.parameter(place)
        better = r.compare(a, b, direction="GT" if largest else "LT")
        same = r.compare(a, b, direction="EQ")
        if dtype.is_float:
            nan, other_nan = r.compare(a, a, direction="NE"), r.compare(b, b, direction="NE")
            better = r.or_(better, r.and_(nan, r.not_(other_nan)))
            same = r.or_(same, r.and_(nan, other_nan))
        better = r.or_(better, r.and_(same, r.compare(i, j, direction="GT")))
        g._regions[key] = r.builder.finish(r.tuple(r.select(better, a, b), r.select(better, i, j)))
    initial = g.scalar(identity_value("amax" if largest else "amin", dtype), dtype)
    both = g.reduce_window(
        x,
        g.iota_along(x.shape.dims, dim),
        initial,
        g.scalar(-1, dt.s64),
        window=_window(x.shape.dims, dim),
        to_apply=g._regions[key],
    )
    return [g.get_tuple_element(both, index=0), g.get_tuple_element(both, index=1)]


@lowers("aten.logcumsumexp.default")
def logcumsumexp(g: Graph, x, dim: int):
    """Running log(sum(e^x))."""
    if x.shape.rank == 0 or x.shape.size == 0:
        return x
    own = x.shape.dtype
    wide = g.widened(x)
    dtype = wide.shape.dtype
    key = ("logaddexp", dtype)
    if key not in g._regions:
        r = g.subgraph("logaddexp")
        scalar = array_shape(dtype, ())
        a, b = r.parameter(scalar), r.parameter(scalar)
        g._regions[key] = r.builder.finish(log_add(r, a, b))
    result = g.reduce_window(
        wide,
        g.scalar(float("-inf"), dtype),
        window=_window(x.shape.dims, normalized(dim, x.shape.rank)),
        to_apply=g._regions[key],
    )
    return g.cast(result, own)


def log_add(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """log(e^a + e^b)."""
    if a.shape.dtype.is_complex:
        first = g.compare(g.real(a), g.real(b), direction="GE")
        low, high = g.select(first, b, a), g.select(first, a, b)
        grown = g.add(high, g.log_plus_one(g.exponential(g.subtract(low, high))))
        empty = g.compare(g.real(low), g.full_like(g.real(low), float("-inf")), direction="EQ")
        return g.select(empty, high, grown)
    high, low = g.maximum(a, b), g.minimum(a, b)
    grown = g.add(high, g.log_plus_one(g.exponential(g.subtract(low, high))))
    equal_infinite = g.and_(g.compare(high, low, direction="EQ"), g.not_(g.is_finite(high)))
    return g.select(equal_infinite, high, grown)
