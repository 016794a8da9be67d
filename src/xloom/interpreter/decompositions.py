"""Cholesky factors and triangular systems, in f64 (c128), rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@evaluates("cholesky")
def cholesky(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Reads one triangle only; a matrix that is not positive definite gives NaN."""
    (a,) = operands
    lower = instruction["lower"]
    half = _wide(a) if lower else np.conj(np.swapaxes(_wide(a), -1, -2))
    n = a.shape[-1]
    out = np.zeros_like(half)
    for j in range(n):
        row = out[..., j, :j]
        pivot = np.real(half[..., j, j]) - np.sum(np.abs(row) ** 2, axis=-1)
        root = np.sqrt(np.where(pivot > 0, pivot, np.nan))
        out[..., j, j] = root
        below = half[..., j + 1 :, j] - np.einsum("...ik,...k->...i", out[..., j + 1 :, :j], np.conj(row))
        out[..., j + 1 :, j] = below / root[..., None]
    bad = np.isnan(np.real(out)).any(axis=(-1, -2), keepdims=True)
    out = np.where(bad, np.nan, out)
    out = out if lower else np.conj(np.swapaxes(out, -1, -2))
    return out.astype(a.dtype)


@evaluates("triangular-solve")
def triangular_solve(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """By substitution; the other triangle is not read."""
    a, b = operands
    matrix, right = _wide(a), _wide(b)
    lower, transpose = instruction["lower"], instruction["transpose_a"]
    if transpose in ("TRANSPOSE", "ADJOINT"):
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
        if transpose == "ADJOINT":
            matrix = np.conj(matrix)
    if not instruction["left_side"]:  # x a = b is a^T x^T = b^T
        matrix, right, lower = np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower
    n = a.shape[-1]
    x = np.zeros_like(right)
    for step in range(n):
        i = step if lower else n - 1 - step
        known = slice(0, i) if lower else slice(i + 1, n)
        rest = right[..., i, :] - np.einsum("...k,...km->...m", matrix[..., i, known], x[..., known, :])
        x[..., i, :] = rest if instruction["unit_diagonal"] else rest / matrix[..., i, i][..., None]
    if not instruction["left_side"]:
        x = np.swapaxes(x, -1, -2)
    return x.astype(b.dtype)
