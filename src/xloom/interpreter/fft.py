"""Discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("fft")
def fft(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Of the innermost dimensions, in f64; inverse transforms divide by the number of points."""
    (x,) = operands
    lengths = instruction["fft_length"]
    if instruction.shape.size == 0:
        return np.zeros(instruction.shape.dims, instruction.shape.dtype.numpy)
    axes = list(range(x.ndim - len(lengths), x.ndim))
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    kind = instruction["fft_type"]
    if kind == "RFFT":
        out = np.fft.rfftn(wide, lengths, axes)
    elif kind == "IRFFT":
        out = np.fft.irfftn(wide, lengths, axes)
    else:
        out = (np.fft.fftn if kind == "FFT" else np.fft.ifftn)(wide, lengths, axes)
    return out.astype(instruction.shape.dtype.numpy)
