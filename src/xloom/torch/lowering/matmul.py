"""Matrix products."""

from __future__ import annotations

from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.module import Instruction
from xloom.torch.lowering.graph import Graph, Number
from xloom.torch.lowering.registry import lowers


def product(g: Graph, a: Instruction, b: Instruction, **dimensions: Any) -> Instruction:
    """A dot product, narrow floats summed as f32."""
    own = a.shape.dtype
    if own.is_float and own.bits < 32:
        from xloom.infer import infer_shape

        shape = infer_shape("dot", [a.shape, b.shape], {k: tuple(v) for k, v in dimensions.items()})
        return g.cast(g.dot(a, b, shape=shape.with_dtype(dt.f32), **dimensions), own)
    return g.dot(a, b, **dimensions)


@lowers("aten.mm.default")
def mm(g: Graph, x, mat2):
    """x @ mat2."""
    return product(g, x, mat2, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))


@lowers("aten.bmm.default")
def bmm(g: Graph, x, mat2):
    """x[i] @ mat2[i]."""
    return product(
        g, x, mat2, lhs_batch_dims=(0,), rhs_batch_dims=(0,), lhs_contracting_dims=(2,), rhs_contracting_dims=(1,)
    )


@lowers("aten.mv.default")
def mv(g: Graph, x, vec):
    """x @ vec."""
    return product(g, x, vec, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))


@lowers("aten.dot.default")
def dot(g: Graph, x, tensor):
    """The sum of products."""
    return product(g, x, tensor, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))


@lowers("aten.vdot.default")
def vdot(g: Graph, x, y):
    """The sum of products, the first conjugated."""
    from xloom.torch.lowering.complex_parts import conj

    return dot(g, conj(g, x), y)


@lowers("aten.addmm.default")
def addmm(g: Graph, x, mat1, mat2, beta: Number, alpha: Number):
    """beta x + alpha mat1 @ mat2."""
    return plus_product(g, x, mm(g, mat1, mat2), beta, alpha)


@lowers("aten.baddbmm.default")
def baddbmm(g: Graph, x, batch1, batch2, beta: Number, alpha: Number):
    """beta x + alpha batch1 @ batch2, each of a batch."""
    return plus_product(g, x, bmm(g, batch1, batch2), beta, alpha)


@lowers("aten.addbmm.default")
def addbmm(g: Graph, x, batch1, batch2, beta: Number, alpha: Number):
    """beta x + alpha times the sum of the products of a batch."""
    total = product(g, batch1, batch2, lhs_contracting_dims=(0, 2), rhs_contracting_dims=(0, 1))
    return plus_product(g, x, total, beta, alpha)


@lowers("aten.addmv.default")
def addmv(g: Graph, x, mat, vec, beta: Number, alpha: Number):
    """beta x + alpha mat @ vec."""
    return plus_product(g, x, mv(g, mat, vec), beta, alpha)


@lowers("aten.addr.default")
def addr(g: Graph, x, vec1, vec2, beta: Number, alpha: Number):
    """beta x + alpha vec1 vec2ᵀ."""
    rows, columns = vec1.shape.size, vec2.shape.size
    left = g.expand(g.reshape_to(vec1, (rows, 1)), (rows, columns))
    return plus_product(g, x, g.multiply(left, g.expand(vec2, (rows, columns))), beta, alpha)


def plus_product(g: Graph, x: Instruction, product: Instruction, beta: Number, alpha: Number) -> Instruction:
    """beta x + alpha product; with beta 0 nothing of x, NaN neither."""
    dims, dtype = product.shape.dims, product.shape.dtype
    if not _is(alpha, 1):
        product = _scaled(g, product, alpha)
    if _is(beta, 0):
        return product
    x = g.expand(g.cast(x, dtype), dims)
    return g.add(x if _is(beta, 1) else _scaled(g, x, beta), product)


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
    result = product(g, input, weight, lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(weight.shape.rank - 1,))
    return result if bias is None else g.add(result, g.expand(bias, result.shape.dims))


@lowers("aten._int_mm.default")
def int_mm(g: Graph, x, mat2):
    """A product of bytes, summed as s32."""
    return mm(g, g.cast(x, dt.s32), g.cast(mat2, dt.s32))
