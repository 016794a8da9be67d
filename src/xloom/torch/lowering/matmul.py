"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from xloom.errors import UnsupportedError
from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.infer import infer_shape
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering.complex_parts import conj
from xloom.torch.lowering.graph import Graph, Number
from xloom.torch.lowering.registry import lowers


def wide_product(g: Graph, a: Instruction, b: Instruction, **dimensions: Any) -> Instruction:
    """A dot product in the type that it is summed in: f32 for narrow floats."""
    if not a.shape.dtype.is_float or a.shape.dtype.bits >= 32:
        return g.dot(a, b, **dimensions)
    shape = infer_shape("dot", [a.shape, b.shape], {k: tuple(v) for k, v in dimensions.items()})
    return g.dot(a, b, shape=shape.with_dtype(dt.f32), **dimensions)


def product(g: Graph, a: Instruction, b: Instruction, **dimensions: Any) -> Instruction:
    """A dot product."""
    return g.cast(wide_product(g, a, b, **dimensions), a.shape.dtype)


_MATRICES = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
_BATCHES = {
    "lhs_batch_dims": (0,),
    "rhs_batch_dims": (0,),
    "lhs_contracting_dims": (2,),
    "rhs_contracting_dims": (1,),
}


@lowers("aten.mm.default")
def mm(g: Graph, x, mat2):
    """x @ mat2."""
    return product(g, x, mat2, **_MATRICES)


@lowers("aten.bmm.default")
def bmm(g: Graph, x, mat2):
    """x[i] @ mat2[i]."""
    return product(g, x, mat2, **_BATCHES)


@lowers("aten._grouped_mm.default")
def grouped_mm(g: Graph, x, mat2, offs, bias, out_dtype):
    """Products of the groups that end at `offs`, along the dimension that a matrix on one side has in common.

    Of a matrix and a batch each row has the matrix of its group; of two matrices each group has a product of its own.
    """
    if bias is not None:
        raise UnsupportedError("grouped products with a bias", hint="add it to the result, as torch asks")
    if offs is None:
        found = wide_product(g, x, mat2, **_BATCHES)
    elif x.shape.rank == 3:  # each column has the matrix of its group
        found = g.permute(_ragged(g, mat2, x, offs, lhs=0, ragged=1, rhs=2), (1, 0))
    elif mat2.shape.rank == 3:
        found = _ragged(g, x, mat2, offs, lhs=1, ragged=0, rhs=1)
    else:
        found = _ragged(g, x, mat2, offs, lhs=1, ragged=1, rhs=0)
    return g.cast(found, x.shape.dtype if out_dtype is None else hlo_dtype(out_dtype))


def _ragged(
    g: Graph, a: Instruction, b: Instruction, ends: Instruction, lhs: int, ragged: int, rhs: int
) -> Instruction:
    """The contraction of dimensions `lhs` and `rhs`, of groups along a's dimension `ragged`."""
    (count,) = ends.shape.dims
    starts = g.pad_with(g.slice_along(ends, 0, 0, count - 1), [(1, 0)], 0)
    dimensions: dict[str, Any] = {"lhs_contracting_dims": (lhs,), "rhs_contracting_dims": (rhs,)}
    dimensions |= {"lhs_ragged_dims": (ragged,), "rhs_group_dims": () if lhs == ragged else (0,)}
    sizes = g.subtract(ends, starts)
    shape = infer_shape("ragged-dot", [a.shape, b.shape, sizes.shape], dimensions)
    wide = dt.f32 if a.shape.dtype.is_float and a.shape.dtype.bits < 32 else a.shape.dtype
    return g.ragged_dot(a, b, sizes, shape=shape.with_dtype(wide), **dimensions)


@lowers("aten.mv.default")
def mv(g: Graph, x, vec):
    """x @ vec."""
    return product(g, x, vec, **_MATRICES)


@lowers("aten.dot.default")
def dot(g: Graph, x, tensor):
    """The sum of products."""
    return product(g, x, tensor, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))


@lowers("aten.vdot.default")
def vdot(g: Graph, x, y):
    """The sum of products, the first conjugated."""
    return dot(g, conj(g, x), y)


@lowers("aten.addmm.default")
def addmm(g: Graph, x, mat1, mat2, beta: Number, alpha: Number):
    """beta x + alpha mat1 @ mat2."""
    return plus_product(g, x, wide_product(g, mat1, mat2, **_MATRICES), beta, alpha, mat1)


@lowers("aten.baddbmm.default")
def baddbmm(g: Graph, x, batch1, batch2, beta: Number, alpha: Number):
    """beta x + alpha batch1 @ batch2, each of a batch."""
    return plus_product(g, x, wide_product(g, batch1, batch2, **_BATCHES), beta, alpha, batch1)


@lowers("aten.addbmm.default")
def addbmm(g: Graph, x, batch1, batch2, beta: Number, alpha: Number):
    """beta x + alpha times the sum of the products of a batch."""
    total = wide_product(g, batch1, batch2, lhs_contracting_dims=(0, 2), rhs_contracting_dims=(0, 1))
    return plus_product(g, x, total, beta, alpha, batch1)


@lowers("aten.addmv.default")
def addmv(g: Graph, x, mat, vec, beta: Number, alpha: Number):
    """beta x + alpha mat @ vec."""
    return plus_product(g, x, wide_product(g, mat, vec, **_MATRICES), beta, alpha, mat)


@lowers("aten.addr.default")
def addr(g: Graph, x, vec1, vec2, beta: Number, alpha: Number):
    """beta x + alpha vec1 vec2ᵀ."""
    rows, columns = vec1.shape.size, vec2.shape.size
    left, right = g.widened(g.reshape_to(vec1, (rows, 1))), g.widened(vec2)
    outer = g.multiply(g.expand(left, (rows, columns)), g.expand(right, (rows, columns)))
    return plus_product(g, x, outer, beta, alpha, vec1)


def plus_product(
    g: Graph, x: Instruction, product: Instruction, beta: Number, alpha: Number, like: Instruction
) -> Instruction:
    """beta x + alpha product, of the dtype of `like`; with beta 0 nothing of x, NaN neither."""
    if not _is(alpha, 1):
        product = _scaled(g, product, alpha)
    if not _is(beta, 0):
        x = g.expand(g.cast(x, product.shape.dtype), product.shape.dims)
        product = g.add(x if _is(beta, 1) else _scaled(g, x, beta), product)
    return g.cast(product, like.shape.dtype)


def _scaled(g: Graph, x: Instruction, factor: Number) -> Instruction:
    if x.shape.dtype is dt.pred:
        return g.and_(x, g.full_like(x, bool(factor)))
    return g.multiply(x, g.full_like(x, factor))


def _is(number: Number, value: int) -> bool:
    return isinstance(number, (bool, int, float, complex)) and number == value


@lowers("aten.linear.default")
def linear(g: Graph, input, weight, bias):
    """input @ weightᵀ + bias."""
    rank = input.shape.rank
    last = {"lhs_contracting_dims": (rank - 1,), "rhs_contracting_dims": (weight.shape.rank - 1,)}
    result = wide_product(g, input, weight, **last)
    if bias is not None:
        result = g.add(result, g.expand(g.cast(bias, result.shape.dtype), result.shape.dims))
    return g.cast(result, input.shape.dtype)


@lowers("aten.linear_backward.default")
def linear_backward(g: Graph, x, grad_output, weight, output_mask) -> list[Instruction | None]:
    """The gradients of input, weight and bias."""
    own = x.shape.dtype
    alone = weight.shape.rank == 1
    matrix = g.reshape_to(weight, (1, weight.shape.size)) if alone else weight
    count, features = math.prod(x.shape.dims[:-1]), matrix.shape.dims[0]
    grad = g.reshape_to(grad_output, (count, features))
    rows = g.reshape_to(x, (count, x.shape.dims[-1]))
    found: list[Instruction | None] = [None, None, None]
    if output_mask[0]:
        found[0] = g.reshape_to(product(g, grad, conj(g, matrix), **_MATRICES), x.shape.dims)
    if output_mask[1]:
        of_weight = product(g, grad, conj(g, rows), lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
        found[1] = g.reshape_to(of_weight, weight.shape.dims)
    if output_mask[2]:
        of_bias = g.cast(g.reduce_with(g.widened(grad), "add", 0, [0]), own)
        found[2] = g.reshape_to(of_bias, () if alone else (features,))
    return found


@lowers("aten._int_mm.default")
def int_mm(g: Graph, x, mat2):
    """A product of bytes, summed as s32."""
    return mm(g, g.cast(x, dt.s32), g.cast(mat2, dt.s32))
