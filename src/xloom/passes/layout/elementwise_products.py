"""dot whose elements are one product each, or few of few columns, or whose sums run down columns.

No matrix saves anything there.
"""

from __future__ import annotations

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import DType, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_SIDES = ("lhs", "rhs")
_FEW_TERMS, _FEW_COLUMNS = 8, 4
_FEW_BYTES = 32
"""Of a row."""
_LEAST_ELEMENTS = 1 << 12
"""Of a result that takes longer than a call."""


# dot(x, y) over dimensions of size 1 == broadcast(x) * broadcast(y) + 0; but for the sign of what underflows to 0
@rule("dot")
def _one_product(i: Instruction, rw: Rewriter) -> Instruction | None:
    summed = [i[f"{side}_contracting_dims"] for side in _SIDES]
    if any(x.shape.dims[d] != 1 for x, dims in zip(i.operands, summed, strict=True) for d in dims):
        return None
    dtype = _arithmetic_type(i)
    if dtype is None:
        return None
    product = array_shape(dtype, i.shape.dims)
    batched = len(i["lhs_batch_dims"])
    first = batched  # of the result's dimensions that are an operand's own
    factors = []
    for x, side, alone in zip(i.operands, _SIDES, summed, strict=True):
        kept = [d for d in range(x.shape.rank) if d not in alone]
        free = [d for d in kept if d not in i[f"{side}_batch_dims"]]
        place = {d: k for k, d in enumerate((*i[f"{side}_batch_dims"], *free))}
        x = rw.make("reshape", array_shape(x.shape.dtype, [x.shape.dims[d] for d in kept]), [x]) if alone else x
        at = tuple(place[d] if place[d] < batched else place[d] - batched + first for d in kept)
        factors.append(rw.make("broadcast", product, [rw.converted(x, dtype)], dimensions=at))
        first += len(free)
    value = rw.make("multiply", product, factors)
    if not dtype.is_integer:
        value = rw.make("add", product, [value, rw.splat(product, 0)])
    return rw.converted(value, i.shape.dtype)


# dot(x, y) over d and batches of the rest == sum(x * y) over d; where memory does not run along d
@rule("dot")
def _sums_of_columns(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, y = i.operands
    batched, summed = i["lhs_batch_dims"], i["lhs_contracting_dims"]
    rank = len(batched) + len(summed)
    alike = (batched, summed) == (i["rhs_batch_dims"], i["rhs_contracting_dims"])
    if not alike or not summed or {x.shape.rank, y.shape.rank} != {rank} or rank - 1 in summed:
        return None
    dtype = _arithmetic_type(i)
    if dtype is None or list(batched) != sorted(batched):
        return None
    products = rw.make("multiply", array_shape(dtype, x.shape.dims), [rw.converted(o, dtype) for o in (x, y)])
    zero = rw.constant(array_shape(dtype, ()), 0)
    sums = array_shape(dtype, i.shape.dims)
    reduced = rw.make("reduce", sums, [products, zero], dimensions=summed, to_apply=rw.sum_of(dtype))
    return rw.converted(reduced, i.shape.dtype)


# dot(x, y) of many rows == sum(broadcast(x[:, k]) * broadcast(y[k, :])), where x and y have few columns
@rule("dot")
def _few_products(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, y = i.operands
    summed = [i[f"{side}_contracting_dims"] for side in _SIDES]
    if i["lhs_batch_dims"] or y.shape.rank != 2 or x.shape.rank < 2 or [len(dims) for dims in summed] != [1, 1]:
        return None
    (left,), (right,) = summed
    depth, columns, dtype = y.shape.dims[right], y.shape.dims[1 - right], _arithmetic_type(i)
    if dtype is None or dtype.is_complex or i.shape.size < _LEAST_ELEMENTS or not _are_few(depth, columns, dtype):
        return None
    product, last = array_shape(dtype, i.shape.dims), i.shape.rank - 1
    total = rw.splat(product, 0)
    for k in range(depth):
        parts = (_part(rw, x, left, k), tuple(range(last))), (_part(rw, y, right, k), (last,))
        factors = [rw.make("broadcast", product, [rw.converted(p, dtype)], dimensions=at) for p, at in parts]
        total = rw.make("add", product, [total, rw.make("multiply", product, factors)])
    return rw.converted(total, i.shape.dtype)


def _are_few(depth: int, columns: int, dtype: DType) -> bool:
    """True where vectors of several rows take less than one of each row."""
    few = columns <= _FEW_COLUMNS or (columns == 2 * _FEW_COLUMNS and dtype.bytes <= 2)
    return few and depth <= _FEW_TERMS and depth * dtype.bytes <= _FEW_BYTES


def _part(rw: Rewriter, x: Instruction, dimension: int, place: int) -> Instruction:
    """What has one place along a dimension, without it."""
    dims = x.shape.dims
    cut = [SliceDimension(0, size, 1) for size in dims]
    cut[dimension] = SliceDimension(place, place + 1, 1)
    one = array_shape(x.shape.dtype, [1 if d == dimension else size for d, size in enumerate(dims)])
    rest = array_shape(x.shape.dtype, [size for d, size in enumerate(dims) if d != dimension])
    return rw.make("reshape", rest, [rw.make("slice", one, [x], slice=tuple(cut))])


def _arithmetic_type(i: Instruction) -> DType | None:
    """What products and sums are formed in; None where operands would be rounded to it."""
    dtype = f32 if i.shape.dtype.is_float and i.shape.dtype.bits < 32 else i.shape.dtype
    kinds = {(o.shape.dtype.is_float, o.shape.dtype.is_complex, o.shape.dtype.bits <= dtype.bits) for o in i.operands}
    return dtype if kinds == {(dtype.is_float, dtype.is_complex, True)} and i["algorithm"] == "unset" else None
