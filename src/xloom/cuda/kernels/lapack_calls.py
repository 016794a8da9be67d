"""Calls of LAPACK's routines, and of one of XLA's for GPUs, by their names in JAX, which kernels of ours do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from xloom.calls import registry
from xloom.calls.jaxlib_handlers import is_replaced
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.kernels.eigenvectors import eigensystems
from xloom.cuda.kernels.householder import product, reflections, unitary
from xloom.cuda.kernels.jacobi import Spectrum, spectra
from xloom.cuda.kernels.ldl import ldl, solve_by_ldl
from xloom.cuda.kernels.linear_systems import factor, solve
from xloom.cuda.kernels.lu import lu
from xloom.cuda.kernels.matrix_kernel import Place
from xloom.cuda.kernels.pivots import permutation
from xloom.cuda.kernels.tridiagonal import tridiagonal_solve
from xloom.cuda.lowering import ThunkLowering
from xloom.cuda.names import CALL_PLATFORM
from xloom.hlo.instruction import Instruction
from xloom.passes.lapack_call_expansion import solve_attributes

_NAME = re.compile("lapack_[sdcz]([a-z]+)_ffi")
Rule = Callable[[ThunkLowering, Instruction], None]


def call_rule(instruction: Instruction) -> Rule | None:
    """The rule of a custom call; None where it is none of these, or other code is registered under its name."""
    name = instruction["custom_call_target"]
    found = _NAME.fullmatch(name)
    rule = _RULES.get(found[1] if found else name)
    if rule is None or instruction["api_version"] != registry.ABIS["typed-ffi"]:
        return None
    return None if registry.is_registered(name, CALL_PLATFORM) or is_replaced(name) else rule


def results(lowering: ThunkLowering, instruction: Instruction) -> list[BufferAllocation]:
    """Memory of each result, whether it is used or not."""
    places = [lowering.output(k) for k in range(len(leaf_shapes(instruction.shape)))]
    shapes = leaf_shapes(instruction.shape)
    return [p if p.kind != "unused" else lowering.scratch(s.nbytes) for p, s in zip(places, shapes, strict=True)]


def letter(call: Instruction, name: str) -> str:
    """An attribute that is the code of a letter."""
    given: dict[str, Any] = parse_attributes(call.backend_config)
    return chr(int(given[name]))


def _factored(lowering: ThunkLowering, call: Instruction) -> None:
    """potrf: a Cholesky factor, and which pivot is not positive."""
    found, info = results(lowering, call)
    factor(lowering, call.operands[0].shape, found, lower=letter(call, "uplo") == "L", info=info)


def _solved(lowering: ThunkLowering, call: Instruction) -> None:
    """trsm: a triangular system."""
    (found,) = results(lowering, call)
    solve(lowering, call.operands[1].shape, solve_attributes(call), found)


def _lu(lowering: ThunkLowering, call: Instruction) -> None:
    """getrf: LU factors, pivots, and which pivot is zero."""
    found, pivots, info = results(lowering, call)
    lu(lowering, call.operands[0].shape, found, pivots, info)


def _symmetric(lowering: ThunkLowering, call: Instruction) -> None:
    """sytrf and hetrf: L D L^T or L D L^H, pivots, and which pivot is zero."""
    found, pivots, info = results(lowering, call)
    ldl(lowering, call.operands[0].shape, found, pivots, info, is_hermitian=_is_hermitian(call))


def _solved_by_ldl(lowering: ThunkLowering, call: Instruction) -> None:
    """sytrs and hetrs: systems by such factors."""
    (found,) = results(lowering, call)
    solve_by_ldl(lowering, call.operands[2].shape, found, is_hermitian=_is_hermitian(call))


def _is_hermitian(call: Instruction) -> bool:
    return call["custom_call_target"][len("lapack_c") :].startswith("he")


def _reflected(lowering: ThunkLowering, call: Instruction) -> None:
    """geqrf: QR factors, Q as reflections."""
    reflections(lowering, call.operands[0].shape, *results(lowering, call))


def _multiplied(lowering: ThunkLowering, call: Instruction) -> None:
    """orgqr: the product of reflections."""
    (found,) = results(lowering, call)
    unitary(lowering, call.operands[0].shape, call.operands[1].shape.dims[-1], found)


def _reflected_product(lowering: ThunkLowering, call: Instruction) -> None:
    """ormqr: a matrix times a product of reflections."""
    (found,) = results(lowering, call)
    given: dict[str, Any] = parse_attributes(call.backend_config)
    how = {name: bool(given[name]) for name in ("left", "transpose")}
    product(lowering, call.operands[0].shape, call.operands[2].shape, found, **how)


def _eigen(lowering: ThunkLowering, call: Instruction) -> None:
    """syevd and heevd: eigenvectors and eigenvalues of Hermitian matrices."""
    shape = call.operands[0].shape
    vectors, values, info = results(lowering, call)
    *outer, n = shape.dims[:-1]
    rows = Place(n, 1, n * n)
    source = rows if letter(call, "uplo") == "L" else rows.adjoint
    if shape.size:
        asked = Spectrum(shape.dtype, math.prod(outer), n, n, source, rows, n, is_hermitian=True)
        spectra(lowering, asked, [lowering.operand(0), values, vectors, vectors, info])


def _general_eigen(lowering: ThunkLowering, call: Instruction) -> None:
    """geev: eigenvalues of matrices that are not Hermitian, and eigenvectors of either side."""
    *values, left, right, info = results(lowering, call)
    left, right = (v if letter(call, f"compute_{s}") == "V" else None for v, s in ((left, "left"), (right, "right")))
    eigensystems(lowering, call.operands[0].shape, values, left, right, info)


def _singular(lowering: ThunkLowering, call: Instruction) -> None:
    """gesdd and gesvd: singular values and vectors, all of these, or as many as values, or none."""
    shape, mode = call.operands[0].shape, letter(call, "mode")
    _, values, left, right, info = results(lowering, call)
    *outer, m, n = shape.dims
    if not shape.size:
        return
    height, width = max(m, n), min(m, n)
    columns = height if mode == "A" else width
    source = Place(n, 1, m * n)
    # of a wide matrix, the adjoint is factored: its vectors are those of the other side
    if m >= n:
        vectors, others = Place(columns, 1, m * columns), Place(n, 1, n * n).adjoint
    else:
        left, right = right, left
        source, vectors, others = source.adjoint, Place(n, 1, n * columns).adjoint, Place(m, 1, m * m)
    has_vectors = mode != "N"
    asked = Spectrum(
        shape.dtype,
        math.prod(outer),
        height,
        width,
        source,
        vectors if has_vectors else None,
        columns,
        others if has_vectors else None,
    )
    spectra(lowering, asked, [lowering.operand(0), values, left, right, info])


def _tridiagonal(lowering: ThunkLowering, call: Instruction) -> None:
    """gtsv: tridiagonal systems, and which pivot is zero."""
    *diagonals, found, info = results(lowering, call)
    tridiagonal_solve(lowering, call.operands[3].shape, diagonals, found, info)


_RULES: dict[str, Rule] = {
    "cu_lu_pivots_to_permutation": permutation,
    "geev": _general_eigen,
    "geqrf": _reflected,
    "gesdd": _singular,
    "gesvd": _singular,
    "getrf": _lu,
    "gtsv": _tridiagonal,
    "heevd": _eigen,
    "hetrf": _symmetric,
    "hetrs": _solved_by_ldl,
    "orgqr": _multiplied,
    "ormqr": _reflected_product,
    "potrf": _factored,
    "syevd": _eigen,
    "sytrf": _symmetric,
    "sytrs": _solved_by_ldl,
    "trsm": _solved,
    "ungqr": _multiplied,
    "unmqr": _reflected_product,
}
