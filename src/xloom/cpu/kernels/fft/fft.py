"""Discrete Fourier transforms of the innermost dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder, kernel
from xloom.cpu.kernels.fft import real
from xloom.cpu.kernels.fft.dimensions import Dimensions, stays
from xloom.hlo.dtype import c64, c128
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target


@form_of("fft")
def fft_form(instruction: Instruction, shapes: Sequence[Shape]) -> ShapeGenericProblem:
    """How many transforms there are is a size."""
    text = ("fft", shapes[0].dtype.name, instruction["fft_type"], instruction["fft_length"])
    return form(repr(text), lambda size: size(_count(instruction)))


@kernel("fft")
def fft(kernel: Kernel, instruction: Instruction) -> None:
    """Inverse transforms divide by the number of points."""
    shape, kind, lengths = kernel.outputs[0], instruction["fft_type"], instruction["fft_length"]
    outer, n = _count(instruction) if kernel.problem is None else kernel.problem, lengths[-1]
    if not math.prod(lengths) or not outer:
        return
    dtype = c128 if shape.dtype.real.bits == 64 else c64
    kernel.pipeline = PassPipeline.TILES
    is_inverse = kind in ("IFFT", "IRFFT")
    work = Dimensions(kernel, dtype, 1 if is_inverse else -1)
    if kind in ("FFT", "IFFT"):
        scale = 1 / math.prod(lengths) if is_inverse else 1.0
        work.over((outer, *lengths), range(1, len(lengths) + 1), _operand, _output, scale)
        return
    dims = (outer, *lengths[:-1], n // 2 + 1)
    others, lines = range(1, len(lengths)), math.prod(dims[:-1])
    if kind == "RFFT":
        between = _output if all(stays(dtype, dims, axis, kernel.target) for axis in others) else work.scratch(dims)
        real.forward(work, lines, n, _operand, between)
        if others:
            work.over(dims, others, between, _output, 1.0)
        return
    between = work.scratch(dims) if others else _operand
    if others:
        work.over(dims, others, _operand, between, 1 / math.prod(lengths[:-1]))
    # the half length has half the points to divide by, and halves are taken before
    real.backward(work, lines, n, between, _output, 1 / (n // 2 if n % 2 == 0 else n))


def transforms_in_place(instruction: Instruction, target: Target) -> bool:
    """True when the result may lie where the operand does."""
    shape, lengths = instruction.shape, instruction["fft_length"]
    if instruction["fft_type"] not in ("FFT", "IFFT") or not shape.size:
        return False
    dims = (_count(instruction), *lengths)
    return all(stays(shape.dtype, dims, axis, target) for axis in range(1, len(dims)))


def _count(instruction: Instruction) -> int:
    """Transforms in the array."""
    dims = instruction.shape.dims
    return math.prod(dims[: len(dims) - len(instruction["fft_length"])])


def _operand(p: PhaseBuilder) -> ir.Value:
    return p.operand(0)


def _output(p: PhaseBuilder) -> ir.Value:
    return p.output(0)
