"""Discrete Fourier transforms of the innermost dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.cpu.kernels.fft import real
from xloom.cpu.kernels.fft.dimensions import Dimensions, stays
from xloom.cpu.kernels.fft.phases import OPERAND, OUTPUT, FftPlan
from xloom.hlo.dtype import c64, c128
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target


@form_of("fft")
def fft_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem:
    """How many transforms there are and how long they are is in numbers and tables, but for how vectors are filled."""
    plan = _plan(instruction, target)
    return form("fft", plan.of_sizes, plan.tables.contents)


@kernel("fft")
def fft(kernel: Kernel, instruction: Instruction) -> None:
    """Inverse transforms divide by the number of points."""
    kernel.pipeline = PassPipeline.CALLERS
    plan = kernel.problem or _plan(instruction, kernel.target)
    plan.emit(kernel)


def _plan(instruction: Instruction, target: Target) -> FftPlan:
    shape, kind, lengths = instruction.shape, instruction["fft_type"], instruction["fft_length"]
    outer = _count(instruction)
    dtype = c128 if shape.dtype.real.bits == 64 else c64
    is_inverse = kind in ("IFFT", "IRFFT")
    work = Dimensions(target, dtype, 1 if is_inverse else -1)
    if not math.prod(lengths) or not outer:
        return work.plan
    if kind in ("FFT", "IFFT"):
        scale = 1 / math.prod(lengths) if is_inverse else 1.0
        work.over((outer, *lengths), range(1, len(lengths) + 1), OPERAND, OUTPUT, scale)
        return work.plan
    n = lengths[-1]
    dims = (outer, *lengths[:-1], n // 2 + 1)
    others, lines = range(1, len(lengths)), math.prod(dims[:-1])
    if kind == "RFFT":
        between = OUTPUT if all(stays(dtype, dims, axis, target) for axis in others) else work.scratch(dims)
        real.forward(work, lines, n, OPERAND, between)
        if others:
            work.over(dims, others, between, OUTPUT, 1.0)
        return work.plan
    between = work.scratch(dims) if others else OPERAND
    if others:
        work.over(dims, others, OPERAND, between, 1 / math.prod(lengths[:-1]))
    # the half length has half the points to divide by, and halves are taken before
    real.backward(work, lines, n, between, OUTPUT, 1 / (n // 2 if n % 2 == 0 else n))
    return work.plan


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
