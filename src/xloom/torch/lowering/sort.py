"""Orders: sorting and what is found by it."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.match import lowest
from xloom.torch.lowering.graph import Graph, normalized
from xloom.torch.lowering.index import gather_lines
from xloom.torch.lowering.reduce import extreme_with_index, kept
from xloom.torch.lowering.registry import lowers


def sorted_with_places(g: Graph, x: Instruction, dim: int, descending: bool = False) -> tuple[Instruction, Instruction]:
    """x in order along a dimension, and where its elements were; equal ones stay in order, NaN is greatest."""
    dtype = x.shape.dtype
    key = ("sort", descending, dtype)
    if key not in g._regions:
        r = g.subgraph("before")
        a, b = r.parameter(array_shape(dtype, ())), r.parameter(array_shape(dtype, ()))
        r.parameter(dt.s64[()])
        r.parameter(dt.s64[()])
        if dtype.is_float:
            a, b = _key(r, a), _key(r, b)
            before = r.compare(a, b, direction="GT" if descending else "LT", type="TOTALORDER")
        else:
            before = r.compare(a, b, direction="GT" if descending else "LT")
        g._regions[key] = r.builder.finish(before)
    both = g.sort(x, g.iota_along(x.shape.dims, dim), dimensions=(dim,), is_stable=True, to_apply=g._regions[key])
    return g.get_tuple_element(both, index=0), g.get_tuple_element(both, index=1)


def _key(g: Graph, x: Instruction) -> Instruction:
    """x with one zero and one NaN, which is greatest in total order."""
    zero = g.full_like(x, 0)
    return _with_one_nan(g, g.select(g.compare(x, zero, direction="EQ"), zero, x))


def _with_one_nan(g: Graph, x: Instruction) -> Instruction:
    return g.select(g.compare(x, x, direction="NE"), g.full_like(x, float("nan")), x)


@lowers("aten.sort.default", "aten.sort.stable")
def sort(g: Graph, x, dim: int, descending: bool, stable: bool | None = None):
    """In order along a dimension, and where the elements were."""
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    return list(sorted_with_places(g, x, normalized(dim, x.shape.rank), descending))


@lowers("aten.argsort.stable", "aten.argsort.default")
def argsort(g: Graph, x, dim: int, descending: bool, stable: bool = True):
    """Where the elements of the sorted tensor are."""
    return sort(g, x, dim, descending)[1]


@lowers("aten.topk.default")
def topk(g: Graph, x, k: int, dim: int, largest: bool, sorted: bool):
    """The k greatest (or least) along a dimension, in order, and where they are."""
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    dim = normalized(dim, x.shape.rank)
    last = [*(d for d in range(x.shape.rank) if d != dim), dim]
    rows = g.permute(_with_one_nan(g, x) if x.shape.dtype.is_float else x, last)
    both = g.topk(rows, k=k, largest=largest)
    back = [last.index(d) for d in range(x.shape.rank)]
    values, places = (g.permute(g.get_tuple_element(both, index=part), back) for part in (0, 1))
    return [values, g.cast(places, dt.s64)]


@lowers("aten.kthvalue.default")
def kthvalue(g: Graph, x, k: int, dim: int, keepdim: bool):
    """The k-th least along a dimension, and where it is."""
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    dim = normalized(dim, x.shape.rank)
    return [_at(g, r, dim, k - 1, keepdim) for r in sorted_with_places(g, x, dim)]


def _at(g: Graph, x: Instruction, dim: int, place: int, keepdim: bool) -> Instruction:
    part = g.slice_along(x, dim, place, place + 1)
    return part if keepdim else g.reshape_to(part, [s for k, s in enumerate(x.shape.dims) if k != dim])


@lowers("aten.median.default")
def median(g: Graph, x):
    """The lower median; NaN if there is one."""
    return _median(g, g.reshape_to(x, (x.shape.size,)), 0, False)[0]


@lowers("aten.median.dim")
def median_dim(g: Graph, x, dim: int, keepdim: bool):
    """The lower median along a dimension, and where it is."""
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    return _median(g, x, normalized(dim, x.shape.rank), keepdim)


def _median(g: Graph, x: Instruction, dim: int, keepdim: bool) -> list[Instruction]:
    size = x.shape.dims[dim]
    if size == 0:
        dims = [s for k, s in enumerate(x.shape.dims) if k != dim]
        value = float("nan") if x.shape.dtype.is_float else lowest(x.shape.dtype)
        return [g.full(dims, value, x.shape.dtype), g.full(dims, 0, dt.s64)]
    found = [_at(g, r, dim, (size - 1) // 2, True) for r in sorted_with_places(g, x, dim)]
    if x.shape.dtype.is_float:
        # the first NaN, if there is any
        top, where = extreme_with_index(g, x, dim, True)
        nan = g.compare(top, top, direction="NE")
        shape = found[0].shape.dims
        found = [
            g.select(g.reshape_to(nan, shape), g.reshape_to(r, shape), f)
            for r, f in zip((top, where), found, strict=True)
        ]
    rest = [s for k, s in enumerate(x.shape.dims) if k != dim]
    return found if keepdim else [g.reshape_to(r, rest) for r in found]


@lowers("aten.nanmedian.default")
def nanmedian(g: Graph, x):
    """The lower median of what is not NaN."""
    return _nanmedian(g, g.reshape_to(x, (x.shape.size,)), 0, False)[0]


@lowers("aten.nanmedian.dim")
def nanmedian_dim(g: Graph, x, dim: int, keepdim: bool):
    """The lower median of what is not NaN along a dimension, and where it is."""
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    return _nanmedian(g, x, normalized(dim, x.shape.rank), keepdim)


def _nanmedian(g: Graph, x: Instruction, dim: int, keepdim: bool) -> list[Instruction]:
    if not x.shape.dtype.is_float or x.shape.size == 0:
        return _median(g, x, dim, keepdim)
    values, places = sorted_with_places(g, x, dim)
    there = g.convert(g.compare(x, x, direction="EQ"), shape=x.shape.with_dtype(dt.s64))
    count = g.reduce_with(there, "add", 0, [dim])
    middle = g.divide(g.maximum(g.subtract(count, g.full_like(count, 1)), g.full_like(count, 0)), g.full_like(count, 2))
    middle = g.reshape_to(middle, [1 if k == dim else s for k, s in enumerate(x.shape.dims)])
    found = [gather_lines(g, r, dim, middle) for r in (values, places)]
    rest = [s for k, s in enumerate(x.shape.dims) if k != dim]
    return found if keepdim else [g.reshape_to(r, rest) for r in found]


@lowers("aten.mode.default")
def mode(g: Graph, x, dim: int, keepdim: bool):
    """The most frequent value along a dimension (the least of them), and where it last is."""
    if x.shape.rank == 0:
        return [x, g.full((), 0, dt.s64)]
    dim = normalized(dim, x.shape.rank)
    size = x.shape.dims[dim]
    line = [*x.shape.dims[: dim + 1], size, *x.shape.dims[dim + 1 :]]
    dims = list(range(x.shape.rank + 1))
    a = g.broadcast(x, shape=array_shape(x.shape.dtype, line), dimensions=[d for d in dims if d != dim + 1])
    b = g.broadcast(x, shape=array_shape(x.shape.dtype, line), dimensions=[d for d in dims if d != dim])
    counts = g.reduce_with(
        g.convert(g.compare(a, b, direction="EQ"), shape=array_shape(dt.s64, line)), "add", 0, [dim + 1]
    )
    ordered, places = sorted_with_places(g, x, dim)
    counts = gather_lines(g, counts, dim, places)
    _, first = extreme_with_index(g, counts, dim, True)
    first = g.reshape_to(first, [1 if k == dim else s for k, s in enumerate(x.shape.dims)])
    value = gather_lines(g, ordered, dim, first)
    same = g.compare(x, g.expand(value, x.shape.dims), direction="EQ")
    where = g.select(same, g.iota_along(x.shape.dims, dim), g.full(x.shape.dims, 0, dt.s64))
    last = kept(g, g.reduce_with(where, "maximum", 0, [dim]), x.shape.dims, True, [dim])
    rest = [s for k, s in enumerate(x.shape.dims) if k != dim]
    return [value, last] if keepdim else [g.reshape_to(value, rest), g.reshape_to(last, rest)]
