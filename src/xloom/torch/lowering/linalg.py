"""Linear algebra: triangular systems in HLO, factorisations by custom calls of LAPACK."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.lapack import SOLVE_FACTORS_ITS_MATRIX, target_of
from xloom.torch.lowering.complex_parts import conj
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.matmul import product
from xloom.torch.lowering.registry import lowers, overload
from xloom.torch.lowering.view import swapped


def adjoint(g: Graph, x: Instruction) -> Instruction:
    """The conjugate transpose of each matrix."""
    return conj(g, swapped(g, x, x.shape.rank - 2, x.shape.rank - 1))


def matmul(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """The products of matrices of equal batch."""
    batch = list(range(a.shape.rank - 2))
    return product(
        g,
        a,
        b,
        lhs_batch_dims=batch,
        rhs_batch_dims=batch,
        lhs_contracting_dims=(a.shape.rank - 1,),
        rhs_contracting_dims=(b.shape.rank - 2,),
    )


_WITHOUT_SHAPE_FUNCTION = {"geqrf", "linalg_lstsq"}


def _without_values(x: Instruction) -> torch.Tensor:
    return torch.empty(x.shape.dims, dtype=torch_dtype(x.shape.dtype), device="meta")


def _identities(x: Instruction) -> torch.Tensor:
    """Matrices of full rank: there are no residuals of others. Vectors are right-hand sides."""
    if x.shape.rank < 2:
        return torch.ones(x.shape.dims, dtype=torch_dtype(x.shape.dtype))
    return torch.eye(*x.shape.dims[-2:], dtype=torch_dtype(x.shape.dtype)).expand(x.shape.dims)


BY_ORDER = frozenset(
    [
        torch.ops.aten._linalg_det.default,
        torch.ops.aten._linalg_slogdet.default,
        torch.ops.aten._linalg_solve_ex.default,
    ]
)
"""Operators whose LU factors are of the transpose of real matrices that lie in rows, which their gradients know.

Of `solve` that depends on torch's version.
"""


def in_columns(g: Graph, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator of `BY_ORDER`, of matrices that do not lie in rows."""
    names = [argument.name for argument in op._schema.arguments]
    given = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
    given |= dict(zip(names, args, strict=False)) | dict(kwargs)
    tensors = [given.pop(name) for name in names if isinstance(given[name], Instruction)]
    return call_lapack(g, op._schema.name.removeprefix("aten::"), *tensors, columns=True, **given)


def call_lapack(g: Graph, operator: str, *tensors: Instruction, columns: bool = False, **options: Any) -> Any:
    """A custom call; the results' shapes are those of torch's own shape functions."""
    example = _identities if operator in _WITHOUT_SHAPE_FUNCTION else _without_values
    results = overload(f"aten.{operator}.default")(*map(example, tensors), **options)
    if isinstance(results, torch.Tensor):
        shape = array_shape(hlo_dtype(results.dtype), tuple(results.shape))
    else:
        shape = tuple_shape([array_shape(hlo_dtype(r.dtype), tuple(r.shape)) for r in results])
    call = g.custom_call(
        target_of(operator),
        list(tensors),
        shape,
        opaque=json.dumps(options | {"columns": True} if columns else options),
    )
    if not shape.is_tuple:
        return call
    return [g.get_tuple_element(call, index=k) for k in range(len(shape.elements))]


@lowers("aten.linalg_cholesky_ex.default")
def cholesky_ex(g: Graph, x, upper: bool, check_errors: bool):
    """The Cholesky factor, and 0 where there is one."""
    factor = cholesky(g, x, upper)
    size = x.shape.rank
    finite = g.compare(factor, factor, direction="EQ")
    good = g.reduce_with(finite, "and", True, [size - 2, size - 1])
    return [factor, g.convert(g.not_(good), shape=good.shape.with_dtype(dt.s32))]


@lowers("aten.cholesky.default")
def cholesky(g: Graph, x, upper: bool):
    """The Cholesky factor; zeros in the other triangle."""
    from xloom.torch.lowering.view import tril

    if x.shape.size == 0:
        return x
    factor = tril(g, g.cholesky(adjoint(g, x) if upper else x, lower=True), 0)
    return adjoint(g, factor) if upper else factor


def solve_triangular(
    g: Graph, a: Instruction, b: Instruction, *, upper: bool, left=True, unit=False, transpose: str = "NO_TRANSPOSE"
) -> Instruction:
    """x of op(a) x = b, or of x op(a) = b; batches stretch to each other's."""
    from xloom.torch.lowering.graph import broadcast_dims

    batch = broadcast_dims(a.shape.dims[:-2], b.shape.dims[:-2])
    a, b = (g.expand(m, (*batch, *m.shape.dims[-2:])) for m in (a, b))
    if 0 in b.shape.dims:
        return b
    return g.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unit, transpose_a=transpose)


@lowers("aten.linalg_solve_triangular.default")
def linalg_solve_triangular(g: Graph, x, B, upper: bool, left: bool, unitriangular: bool):
    """The solution of a triangular system."""
    B = g.cast(B, x.shape.dtype)  # torch takes two and solves in that of the matrix
    return solve_triangular(g, x, B, upper=upper, left=left, unit=unitriangular)


@lowers("aten.triangular_solve.default")
def triangular_solve(g: Graph, x, A, upper: bool, transpose: bool, unitriangular: bool):
    """The solution of a triangular system, and its matrix."""
    how = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    solution = solve_triangular(g, A, x, upper=upper, unit=unitriangular, transpose=how)
    return [solution, g.expand(A, (*solution.shape.dims[:-2], *A.shape.dims[-2:]))]


@lowers("aten.cholesky_solve.default")
def cholesky_solve(g: Graph, x, input2, upper: bool):
    """The solution of a system whose Cholesky factor is given."""
    first, second = ("ADJOINT", "NO_TRANSPOSE") if upper else ("NO_TRANSPOSE", "ADJOINT")
    inner = solve_triangular(g, input2, x, upper=upper, transpose=first)
    return solve_triangular(g, input2, inner, upper=upper, transpose=second)


@lowers("aten.cholesky_inverse.default")
def cholesky_inverse(g: Graph, x, upper: bool):
    """The inverse of the matrix whose Cholesky factor is given."""
    dims = x.shape.dims
    same = g.compare(g.iota_along(dims, len(dims) - 2), g.iota_along(dims, len(dims) - 1), direction="EQ")
    return cholesky_solve(g, g.cast(same, x.shape.dtype), x, upper)


@lowers("aten._linalg_det.default")
def det(g: Graph, A):
    """The determinant, and the factors."""
    return call_lapack(g, "_linalg_det", A)


@lowers("aten._linalg_slogdet.default")
def slogdet(g: Graph, A):
    """Sign and logarithm of the determinant, and the factors."""
    return call_lapack(g, "_linalg_slogdet", A)


@lowers("aten._linalg_solve_ex.default")
def solve_ex(g: Graph, A, B, left: bool, check_errors: bool):
    """The solution of a system, and the factors."""
    columns = SOLVE_FACTORS_ITS_MATRIX
    return call_lapack(g, "_linalg_solve_ex", A, B, columns=columns, left=left, check_errors=check_errors)


@lowers("aten.linalg_inv_ex.default")
def inv_ex(g: Graph, A, check_errors: bool):
    """The inverse."""
    return call_lapack(g, "linalg_inv_ex", A, check_errors=check_errors)


@lowers("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(g: Graph, A, pivot: bool, check_errors: bool):
    """L and U in one matrix, and the rows exchanged."""
    return call_lapack(g, "linalg_lu_factor_ex", A, pivot=pivot, check_errors=check_errors)


@lowers("aten.linalg_lu.default")
def lu(g: Graph, A, pivot: bool):
    """P, L and U."""
    return call_lapack(g, "linalg_lu", A, pivot=pivot)


@lowers("aten.lu_unpack.default")
def lu_unpack(g: Graph, LU_data, LU_pivots, unpack_data: bool, unpack_pivots: bool):
    """P, L and U out of one matrix."""
    return call_lapack(g, "lu_unpack", LU_data, LU_pivots, unpack_data=unpack_data, unpack_pivots=unpack_pivots)


@lowers("aten.linalg_lu_solve.default")
def lu_solve(g: Graph, LU, pivots, B, left: bool, adjoint: bool):
    """The solution of a system whose factors are given."""
    return call_lapack(g, "linalg_lu_solve", LU, pivots, B, left=left, adjoint=adjoint)


@lowers("aten.linalg_qr.default")
def qr(g: Graph, A, mode: str):
    """Q and R."""
    return call_lapack(g, "linalg_qr", A, mode=mode)


@lowers("aten.geqrf.default")
def geqrf(g: Graph, x):
    """Householder vectors and their factors."""
    return call_lapack(g, "geqrf", x)


@lowers("aten.linalg_householder_product.default")
def householder_product(g: Graph, input, tau):
    """The product of Householder reflections."""
    return call_lapack(g, "linalg_householder_product", input, tau)


@lowers("aten.ormqr.default")
def ormqr(g: Graph, x, input2, input3, left: bool, transpose: bool):
    """A matrix times the product of Householder reflections."""
    return call_lapack(g, "ormqr", x, input2, input3, left=left, transpose=transpose)


def _reads(g: Graph, *results: int) -> bool:
    """Whether any of an operator's results is read: vectors, which traced programs ask for always, take most time."""
    return g.read is None or not g.read.isdisjoint(results)


@lowers("aten._linalg_eigh.default")
def eigh(g: Graph, A, UPLO: str, compute_v: bool):
    """Eigenvalues and vectors of a Hermitian matrix."""
    if compute_v and not _reads(g, 1):
        return [call_lapack(g, "_linalg_eigh", A, UPLO=UPLO, compute_v=False)[0], None]
    return call_lapack(g, "_linalg_eigh", A, UPLO=UPLO, compute_v=compute_v)


@lowers("aten.linalg_eig.default")
def eig(g: Graph, x):
    """Eigenvalues and vectors."""
    return call_lapack(g, "linalg_eig", x) if _reads(g, 1) else [eigvals(g, x), None]


@lowers("aten._linalg_eigvals.default", "aten.linalg_eigvals.default")
def eigvals(g: Graph, x):
    """Eigenvalues."""
    return call_lapack(g, "_linalg_eigvals", x)


@lowers("aten._linalg_svd.default")
def svd(g: Graph, A, full_matrices: bool, compute_uv: bool, driver: str | None):
    """Singular values and vectors."""
    if compute_uv and not _reads(g, 0, 2):
        return [None, call_lapack(g, "_linalg_svd", A, full_matrices=full_matrices, compute_uv=False)[1], None]
    return call_lapack(g, "_linalg_svd", A, full_matrices=full_matrices, compute_uv=compute_uv)


@lowers("aten.linalg_lstsq.default")
def lstsq(g: Graph, x, b, rcond: float | None, driver: str | None):
    """The least squares solution, residuals, rank and singular values."""
    return call_lapack(g, "linalg_lstsq", x, b, rcond=rcond, driver=driver)


@lowers("aten.linalg_ldl_factor_ex.default")
def ldl_factor_ex(g: Graph, x, hermitian: bool, check_errors: bool):
    """L D Lᵀ in one matrix, and the rows exchanged."""
    return call_lapack(g, "linalg_ldl_factor_ex", x, hermitian=hermitian, check_errors=check_errors)


@lowers("aten.linalg_ldl_solve.default")
def ldl_solve(g: Graph, LD, pivots, B, hermitian: bool):
    """The solution of a system whose factors are given."""
    return call_lapack(g, "linalg_ldl_solve", LD, pivots, B, hermitian=hermitian)


@lowers("aten._linalg_check_errors.default")
def check_errors(g: Graph, x=None, info=None, api_name: str = "", is_matrix: bool = False):
    """Nothing: a factorisation that fails gives NaN."""
    return []


@lowers("prims._make_token.default")
def make_token(g: Graph):
    """Nothing: operators with effects run in the order of the program."""
    return None


@lowers("prims._sink_tokens.default")
def sink_tokens(g: Graph, tokens):
    """Nothing."""
    return []


@lowers("aten.linalg_matrix_exp.default")
def matrix_exp(g: Graph, x):
    """e to a matrix: Taylor's series of the matrix over 2^k, squared k times (scaling and squaring).

    Each squaring doubles the error, so there are no more than bring a matrix's norm to where the series converges.
    """
    if x.shape.size == 0:
        return x
    own = x.shape.dtype
    wide = g.cast(x, dt.c128 if own.is_complex else dt.f64)
    squarings, terms, reach = 16, 18, 1.09  # of norms below, those terms are exact to f64
    dims = x.shape.dims
    same = g.compare(g.iota_along(dims, len(dims) - 2), g.iota_along(dims, len(dims) - 1), direction="EQ")
    unit = g.cast(same, wide.shape.dtype)
    norm = g.reduce_with(g.reduce_with(g.abs(wide), "add", 0, [len(dims) - 2]), "maximum", 0, [len(dims) - 2])
    halved = []
    for _ in range(squarings):
        halved.append(g.compare(norm, g.full_like(norm, reach), direction="GT"))
        norm = g.select(halved[-1], g.multiply(norm, g.full_like(norm, 0.5)), norm)
    small = wide
    for each in halved:
        small = g.select(_of_matrices(g, each, dims), g.multiply(small, g.full_like(small, 0.5)), small)
    total = unit
    for k in range(terms, 0, -1):
        total = g.add(unit, g.multiply(matmul(g, small, total), g.full_like(wide, 1 / k)))
    for each in halved:
        total = g.select(_of_matrices(g, each, dims), matmul(g, total, total), total)
    return g.cast(total, own)


def _of_matrices(g: Graph, each: Instruction, dims: Sequence[int]) -> Instruction:
    """A value of each matrix, for all of its elements."""
    return g.expand(g.reshape_to(each, (*each.shape.dims, 1, 1)), dims)


@lowers("aten._cdist_forward.default")
def cdist(g: Graph, x1, x2, p: float, compute_mode: int | None):
    """The distances between every two rows."""
    from xloom.torch.lowering.graph import broadcast_dims

    batch = broadcast_dims(x1.shape.dims[:-2], x2.shape.dims[:-2])
    a, b = x1.shape.dims[-2], x2.shape.dims[-2]
    size = x1.shape.dims[-1]
    dims = (*batch, a, b, size)
    left = g.expand(g.reshape_to(x1, (*x1.shape.dims[:-1], 1, size)), dims)
    right = g.expand(g.reshape_to(x2, (*x2.shape.dims[:-2], 1, b, size)), dims)
    return distance(g, g.abs(g.subtract(left, right)), p)


def distance(g: Graph, off: Instruction, p: float) -> Instruction:
    """The p-norm of the last dimension of numbers that are not negative."""
    last = [off.shape.rank - 1]
    if math.isinf(p):
        return g.reduce_with(off, "maximum", 0, last)
    if p == 0:
        return g.reduce_with(
            g.cast(g.compare(off, g.full_like(off, 0), direction="NE"), off.shape.dtype), "add", 0, last
        )
    if p == 1:
        return g.reduce_with(off, "add", 0, last)
    if p == 2:
        return g.sqrt(g.reduce_with(g.multiply(off, off), "add", 0, last))
    total = g.reduce_with(g.power(off, g.full_like(off, p)), "add", 0, last)
    return g.power(total, g.full_like(total, 1 / p))


@lowers("aten._cdist_backward.default")
def cdist_backward(g: Graph, grad_output, x1, x2, p: float, cdist):
    """The gradient of the distances by the first rows."""
    if not cdist.shape.size:  # where torch has not expanded the rows to the same batch
        return g.full_like(x1, 0)
    a, b, size = x1.shape.dims[-2], x2.shape.dims[-2], x1.shape.dims[-1]
    batch = grad_output.shape.dims[:-2]
    dims = (*batch, a, b, size)
    left = g.expand(g.reshape_to(x1, (*x1.shape.dims[:-1], 1, size)), dims)
    right = g.expand(g.reshape_to(x2, (*x2.shape.dims[:-2], 1, b, size)), dims)
    off = g.subtract(left, right)
    wide = g.expand(g.reshape_to(grad_output, (*batch, a, b, 1)), dims)
    far = g.expand(g.reshape_to(cdist, (*batch, a, b, 1)), dims)
    slope = distance_slope(g, off, far, p)
    return g.reduce_with(g.multiply(wide, slope), "add", 0, [len(dims) - 2])


def distance_slope(g: Graph, off: Instruction, far: Instruction, p: float) -> Instruction:
    """How the p-norm changes with each difference."""
    zero = g.full_like(off, 0)
    sign = g.sign(off)
    if p == 0:
        return zero
    if p == 1:
        return sign
    if math.isinf(p):
        return g.select(g.compare(g.abs(off), far, direction="EQ"), sign, zero)
    size = g.abs(off)
    if p == 2:
        slope = g.divide(off, far)
    else:
        raised = g.power(size, g.full_like(size, p - 1))
        raised = g.select(g.compare(size, zero, direction="EQ"), zero, raised)
        slope = g.divide(g.multiply(sign, raised), g.power(far, g.full_like(far, p - 1)))
    return g.select(g.compare(far, zero, direction="EQ"), zero, slope)


@lowers("aten._pdist_forward.default")
def pdist(g: Graph, x, p: float):
    """The distances between every row and those after it."""
    first, second = _pairs(g, x)
    return distance(g, g.abs(g.subtract(first, second)), p)


def _pairs(g: Graph, x: Instruction) -> tuple[Instruction, Instruction]:
    import numpy as np

    from xloom.torch.lowering.index import take_along

    i, j = np.triu_indices(x.shape.dims[0], 1)
    return take_along(g, x, 0, g.literal(i)), take_along(g, x, 0, g.literal(j))


@lowers("aten._pdist_backward.default")
def pdist_backward(g: Graph, grad_output, x, p: float, pdist):
    """The gradient of such distances."""
    import numpy as np

    from xloom.torch.lowering.scatter import put_along

    i, j = np.triu_indices(x.shape.dims[0], 1)
    if len(i) == 0:
        return g.full_like(x, 0)
    first, second = _pairs(g, x)
    off = g.subtract(first, second)
    wide, far = (g.expand(g.reshape_to(v, (len(i), 1)), off.shape.dims) for v in (grad_output, pdist))
    slope = g.multiply(wide, distance_slope(g, off, far, p))
    total = put_along(g, g.full_like(x, 0), 0, g.literal(i), slope, "add")
    return put_along(g, total, 0, g.literal(j), g.negate(slope), "add")


@lowers("aten._trilinear.default")
def trilinear(g: Graph, i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim: int):
    """The sum over dimensions of the product of three tensors that stretch."""
    from xloom.torch.lowering.view import unsqueeze

    parts = []
    for x, places in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for place in places:
            x = unsqueeze(g, x, place)
        parts.append(x)
    a, b, c = (g.widened(p) for p in g.broadcast_operands(*parts))
    total = g.reduce_with(g.multiply(g.multiply(a, b), c), "add", 0, list(sumdim))
    return g.cast(total, i1.shape.dtype)
