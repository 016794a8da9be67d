"""Factors of matrices and their spectra, by the names of ATen."""

from __future__ import annotations

from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape
from xloom.passes.torch_linalg.expansion import Expansion, Values


def _taus(e: Expansion, a: Instruction) -> Shape:
    *batch, m, n = a.shape.dims
    return array_shape(e.dtype, (*batch, min(m, n)))


def geqrf(e: Expansion, a: Instruction) -> Values:
    """QR factors, Q as reflections."""
    return e.lapack_in_columns("geqrf", [a], [a.shape, _taus(e, a)])


def _unitary(e: Expansion, a: Instruction, taus: Instruction, shape: Shape) -> Values:
    return e.lapack_in_columns("ungqr" if e.dtype.is_complex else "orgqr", [a, taus], [shape])


def householder_product(e: Expansion, a: Instruction, taus: Instruction) -> Values:
    """The first columns of a product of reflections."""
    return _unitary(e, a, taus, a.shape)


def qr(e: Expansion, a: Instruction, *, mode: str) -> Values:
    """Q and R."""
    n = a.shape.dims[-1]
    factors, taus = geqrf(e, a)
    upper = e.of_matrices("LE", e.slice(factors, a.shape.rank - 2, 0, e.shapes[1].dims[-2]), 0)
    if mode == "r":
        return [e.nothing(0), upper]
    width = e.shapes[0].dims[-1]
    vectors = _with_columns(e, e.columns(factors, 0, min(width, n)), width)
    return [*_unitary(e, vectors, taus, e.shapes[0]), upper]


def eigh(e: Expansion, a: Instruction, *, UPLO: str, compute_v: bool) -> Values:
    """Eigenvalues and vectors of Hermitian matrices."""
    batch = a.shape.dims[:-2]
    routine = "heevd" if e.dtype.is_complex else "syevd"
    shapes = [a.shape, e.shapes[0], array_shape(s32, batch)]
    vectors, values, info = e.lapack(routine, [a], shapes, mode="V", uplo=UPLO)
    return [e.told(info, values), e.told(info, vectors) if compute_v else e.nothing(1)]


def svd(e: Expansion, a: Instruction, *, full_matrices: bool, compute_uv: bool) -> Values:
    """Singular values and vectors."""
    if not compute_uv:
        return [e.nothing(0), singular(e, a, "N")[1], e.nothing(2)]
    return singular(e, a, "A" if full_matrices else "S")


def singular(e: Expansion, a: Instruction, mode: str) -> Values:
    """Vectors, values and vectors: all of them ("A"), as many as values ("S"), or values alone that are to be read."""
    *batch, m, n = a.shape.dims
    k = min(m, n)
    width, height = (m, n) if mode == "A" else (k, k)
    vectors = [array_shape(e.dtype, (*batch, m, width)), array_shape(e.dtype, (*batch, height, n))]
    shapes = [a.shape, array_shape(e.dtype.real, (*batch, k)), *vectors, array_shape(s32, batch)]
    _, values, left, right, info = e.lapack("gesdd", [a], shapes, mode=mode)
    if mode == "N":
        return [left, e.told(info, values), right]
    return [e.told(info, x) for x in (left, values, right)]


def lu_factor(e: Expansion, a: Instruction, *, pivot: bool, check_errors: bool) -> Values | None:
    """Both factors in one matrix, pivots and info."""
    return e.lu(a) if pivot else None


def lu(e: Expansion, a: Instruction, *, pivot: bool) -> Values | None:
    """P, L and U."""
    if not pivot:
        return None
    factors, pivots, _ = e.lu(a)
    return [_exchange(e, pivots, e.shapes[0]), *_triangles(e, factors)]


def lu_unpack(
    e: Expansion, factors: Instruction, pivots: Instruction, *, unpack_data: bool, unpack_pivots: bool
) -> Values:
    """The same of what `lu_factor` gives."""
    exchange = _exchange(e, pivots, e.shapes[0]) if unpack_pivots else e.nothing(0)
    return [exchange, *(_triangles(e, factors) if unpack_data else (e.nothing(1), e.nothing(2)))]


def _exchange(e: Expansion, pivots: Instruction, shape: Shape) -> Instruction:
    """Matrices that bring rows back to where they were before pivots exchanged them."""
    order = e.order(pivots, shape.dims[-1])
    return e.rw.converted(e.compared(e.numbers(shape.dims, -2), e.spread(order, shape.dims, -1), "EQ"), shape.dtype)


def _triangles(e: Expansion, factors: Instruction) -> Values:
    """L and U of one matrix."""
    *_, m, n = factors.shape.dims
    k = min(m, n)
    lower = e.columns(factors, 0, k)
    lower = e.rw.make("add", lower.shape, [e.of_matrices("GT", lower, 0), e.identity(lower.shape.dims)])
    return [lower, e.of_matrices("LE", e.slice(factors, factors.shape.rank - 2, 0, k), 0)]


def ldl_factor(e: Expansion, a: Instruction, *, hermitian: bool, check_errors: bool) -> Values:
    """L D L^T in one triangle, pivots and info."""
    routine = "hetrf" if hermitian and e.dtype.is_complex else "sytrf"
    *batch, n, _ = a.shape.dims
    return e.lapack(routine, [a], [a.shape, array_shape(s32, (*batch, n)), array_shape(s32, batch)])


def ormqr(
    e: Expansion, vectors: Instruction, taus: Instruction, other: Instruction, *, left: bool, transpose: bool
) -> Values | None:
    """A matrix times a product of reflections."""
    if other.shape.dims[:-2] != vectors.shape.dims[:-2]:
        return None
    if not left:
        # x q is the adjoint of q* x*
        other = e.adjoint(other)
    found = reflected(e, vectors, taus, other, is_adjoint=transpose == left)
    return [found if left else e.adjoint(found)]


def reflected(
    e: Expansion, vectors: Instruction, taus: Instruction, x: Instruction, *, is_adjoint: bool
) -> Instruction:
    """A product of reflections, or its adjoint, times a matrix."""
    routine = "unmqr" if e.dtype.is_complex else "ormqr"
    (found,) = e.lapack_in_columns(routine, [vectors, taus, x], [x.shape], left=True, transpose=is_adjoint)
    return found


def _with_columns(e: Expansion, x: Instruction, width: int) -> Instruction:
    """x, and as many columns of zeros as it lacks."""
    *outer, n = x.shape.dims
    if width == n:
        return x
    more = e.rw.splat(array_shape(e.dtype, (*outer, width - n)), 0)
    return e.rw.make("concatenate", array_shape(e.dtype, (*outer, width)), [x, more], dimensions=(len(outer),))
