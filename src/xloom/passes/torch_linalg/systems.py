"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import numpy as np

from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.torch_linalg.expansion import Expansion, Values
from xloom.passes.torch_linalg.factors import singular


def inverse(e: Expansion, a: Instruction, *, check_errors: bool) -> Values:
    """Inverses, and info."""
    x, (_, _, info) = e.solved(a, e.identity(a.shape.dims))
    return [x, info]


def _as_factored(e: Expansion, a: Instruction, columns: bool) -> Instruction:
    """Of real matrices that lie in rows, torch factors the transposes."""
    return a if columns or e.dtype.is_complex else e.turned(a)


def det(e: Expansion, a: Instruction, *, columns: bool = False) -> Values:
    """Determinants, and the factors."""
    factors, pivots, _ = e.lu(_as_factored(e, a, columns))
    product = e.reduced(e.diagonal(factors), "multiply", 1)
    found = e.rw.make("multiply", product.shape, [product, e.exchanges(pivots)])
    return [found, factors, pivots]


def slogdet(e: Expansion, a: Instruction, *, columns: bool = False) -> Values:
    """Signs and logarithms of determinants, and the factors."""
    factors, pivots, _ = e.lu(_as_factored(e, a, columns))
    diagonal = e.diagonal(factors)
    signs = e.reduced(e.unary("sign", diagonal), "multiply", 1)
    sign = e.rw.make("multiply", signs.shape, [signs, e.exchanges(pivots)])
    return [sign, e.reduced(e.unary("log", e.unary("abs", diagonal)), "add", 0), factors, pivots]


def solve(
    e: Expansion, a: Instruction, right: Instruction, *, left: bool, check_errors: bool, columns: bool = False
) -> Values | None:
    """x of a x = right, or x a = right, and the factors."""
    *batch, n, _ = a.shape.dims
    is_vector = right.shape.dims == (*batch, n)
    if not is_vector and right.shape.dims[:-2] != tuple(batch):
        return None
    matrix = a
    if is_vector:
        right = e.rw.make("reshape", array_shape(e.dtype, (*batch, n, 1)), [right])
    if not left and not is_vector:
        matrix, right = e.turned(a), e.turned(right)
    x, (factors, pivots, info) = e.solved(matrix, right)
    factored = _as_factored(e, a, columns)
    if matrix is not factored and e.are_read(1, 2):
        factors, pivots, _ = e.lu(factored)
    if is_vector:
        x = e.rw.make("reshape", e.shapes[0], [x])
    elif not left:
        x = e.turned(x)
    return [x, factors, pivots, info]


def lu_solve(
    e: Expansion, factors: Instruction, pivots: Instruction, right: Instruction, *, left: bool, adjoint: bool
) -> Values:
    """x of a x = right, or x a = right, of a's factors; of its adjoint, if asked."""
    batch, n = e.shapes[0].dims[:-2], factors.shape.dims[-1]
    factors, right = e.stretched(factors, batch), e.stretched(right, batch)
    column = e.rw.make("reshape", array_shape(s32, (*pivots.shape.dims, 1)), [e.order(pivots, n)])
    order = e.rw.make("reshape", array_shape(s32, (*batch, n)), [e.stretched(column, batch)])
    if left != adjoint:
        # x a^H = right: a x^H = right^H
        x = e.in_order(right if left else e.adjoint(right), order)
        x = e.triangular(factors, x, lower=True, unit=True)
        x = e.triangular(factors, x, lower=False, unit=False)
        return [x if left else e.adjoint(x)]
    # x a = right: a^T x^T = right^T
    transpose = "ADJOINT" if left else "TRANSPOSE"
    x = e.triangular(factors, right if left else e.turned(right), lower=False, unit=False, transpose=transpose)
    x = e.triangular(factors, x, lower=True, unit=True, transpose=transpose)
    x = e.in_order(x, e.order_back(order))
    return [x if left else e.turned(x)]


def lstsq(
    e: Expansion, a: Instruction, right: Instruction, *, rcond: float | None, driver: str | None
) -> Values | None:
    """The shortest x of those for which |a x - right| is least, by singular values; residuals, ranks, these values."""
    *batch, m, n = a.shape.dims
    is_vector = right.shape.dims == (*batch, m)
    if is_vector:
        right = e.rw.make("reshape", array_shape(e.dtype, (*batch, m, 1)), [right])
    if right.shape.dims[:-2] != tuple(batch):
        return None
    k, columns, real = min(m, n), right.shape.dims[-1], e.dtype.real
    left, values, vectors = singular(e, a, "S")
    greatest = e.reduced(values, "maximum", 0)
    epsilon = float(np.finfo(real.numpy).eps)
    least = 0.0 if driver == "gels" else epsilon * max(m, n) if rcond is None else rcond
    bound = e.rw.make("multiply", greatest.shape, [greatest, e.rw.splat(greatest.shape, least)])
    is_there = e.compared(values, e.spread(bound, values.shape.dims), "GT")
    inverses = e.rw.make("divide", values.shape, [e.rw.splat(values.shape, 1), values])
    inverses = e.rw.converted(e.chosen(is_there, inverses, 0), e.dtype)
    parts = e.product(e.adjoint(left), right)
    parts = e.rw.make("multiply", parts.shape, [parts, e.spread(inverses, (*batch, k, columns), -2)])
    x = e.product(e.adjoint(vectors), parts)
    residuals = e.nothing(1)
    if e.shapes[1].size:
        off = e.rw.make("subtract", right.shape, [e.product(a, x), right])
        size = e.unary("abs", off)
        residuals = e.reduced(e.turned(e.rw.make("multiply", size.shape, [size, size])), "add", 0)
    ranks = e.nothing(2)
    if e.shapes[2].dims == tuple(batch):
        ranks = e.reduced(e.rw.converted(is_there, e.shapes[2].dtype), "add", 0)
    found = e.rw.make("reshape", e.shapes[0], [x]) if is_vector else x
    return [found, residuals, ranks, values if e.shapes[3].size else e.nothing(3)]


def ldl_solve(
    e: Expansion, factors: Instruction, pivots: Instruction, right: Instruction, *, hermitian: bool
) -> Values | None:
    """x of a x = right of a's factors L D L^T."""
    if factors.shape.dims[:-2] != right.shape.dims[:-2]:
        return None
    routine = "hetrs" if hermitian and e.dtype.is_complex else "sytrs"
    return e.lapack(routine, [factors, pivots, right], [right.shape])
