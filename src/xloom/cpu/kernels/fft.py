"""Discrete Fourier transforms of the innermost dimensions."""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.cpu.content import Content
from xloom.cpu.kernel import Kernel, PhaseBuilder, kernel
from xloom.cpu.kernels.fourier import real
from xloom.cpu.kernels.fourier.dimensions import Dimensions
from xloom.hlo.dtype import c64, c128
from xloom.hlo.module import Instruction


@kernel("fft")
def fft(kernel: Kernel, instruction: Instruction) -> None:
    """Inverse transforms divide by the number of points."""
    shape, kind, lengths = kernel.outputs[0], instruction["fft_type"], instruction["fft_length"]
    if not shape.size:
        return
    dtype = c128 if shape.dtype.real.bits == 64 else c64
    kernel.content = Content.VECTORS if kind in ("FFT", "IFFT") else Content.ROWS  # halves are put together in loops
    is_inverse = kind in ("IFFT", "IRFFT")
    work = Dimensions(kernel, dtype, 1 if is_inverse else -1)
    outer, n = math.prod(shape.dims[: shape.rank - len(lengths)]), lengths[-1]
    if kind in ("FFT", "IFFT"):
        scale = 1 / math.prod(lengths) if is_inverse else 1.0
        work.over((outer, *lengths), range(1, len(lengths) + 1), _operand, _output, scale)
        return
    dims = (outer, *lengths[:-1], n // 2 + 1)
    others, lines = range(1, len(lengths)), math.prod(dims[:-1])
    between = work.scratch(dims) if others else None
    if kind == "RFFT":
        real.forward(work, lines, n, _operand, between or _output)
        if between is not None:
            work.over(dims, others, between, _output, 1.0)
        return
    if between is not None:
        work.over(dims, others, _operand, between, 1 / math.prod(lengths[:-1]))
    # the half length has half the points to divide by, and halves are taken before
    real.backward(work, lines, n, between or _operand, _output, 1 / (n // 2 if n % 2 == 0 else n))


def _operand(p: PhaseBuilder) -> ir.Value:
    return p.operand(0)


def _output(p: PhaseBuilder) -> ir.Value:
    return p.output(0)
