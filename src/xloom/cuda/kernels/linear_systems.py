"""Triangular systems and Cholesky factors, a block of rows after another: two launches for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.kernel import THREADS, DeviceKernel, blocks_for, strided
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.blocked_matrix import Strips, System, Update, depth, step_number
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm import element_access
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64


@kernel("triangular-solve")
def triangular_solve(lowering: ThunkLowering, instruction: Instruction) -> None:
    """a x = b or x a = b; of a, one triangle is read. The right side is copied to the result, and solved there."""
    attributes = {name: instruction[name] for name in ("left_side", "lower", "transpose_a", "unit_diagonal")}
    solve(lowering, instruction.shape, attributes, lowering.output())


def solve(lowering: ThunkLowering, right: Shape, attributes: Mapping[str, Any], x: BufferAllocation) -> None:
    """The same by the attributes of a triangular-solve, of the thunk's operands."""
    if not right.size:
        return
    lowering.copy(x, lowering.operand(1))
    system, a = _system(right, attributes), lowering.operand(0)
    strips = Strips(lowering, system, [a, x, x, step_number(0)]).made()
    update = Update(lowering, system, [a, x, x, step_number(0)], system.triangle).made()
    rows = depth(system.dtype)
    for start in range(0, system.n, rows):
        number = step_number(start)
        lowering.launch(strips, Strips.blocks(system, system.m), [a, x, number])
        left = system.n - start - rows
        if left > 0:
            lowering.launch(update, Update.blocks(system, left, system.m), [a, x, number])


def _system(right: Shape, attributes: Mapping[str, Any]) -> System:
    *outer, height, width = right.dims
    left_side, transpose = attributes["left_side"], attributes["transpose_a"]
    n, m = (height, width) if left_side else (width, height)
    is_transposed = (transpose in ("TRANSPOSE", "ADJOINT")) == left_side
    row, column = (1, n) if is_transposed else (n, 1)
    is_lower = attributes["lower"] != is_transposed
    sign, first = (1, 0) if is_lower else (-1, n * n - 1)  # an upper triangle from its last row upwards
    step, next_to = (width, 1) if left_side else (1, width)
    conjugate = transpose == "ADJOINT"
    solution = Place(sign * step, next_to, height * width, 0 if is_lower else (n - 1) * step)
    triangle = Place(sign * row, sign * column, n * n, first, conjugate)
    batch = math.prod(outer)
    return System(right.dtype, batch, n, m, triangle, solution, solution, attributes["unit_diagonal"])


@kernel("cholesky")
def cholesky(lowering: ThunkLowering, instruction: Instruction) -> None:
    """One triangle is read, the other is 0 in the result; all is NaN if the matrix is not positive definite."""
    factor(lowering, instruction.shape, lowering.output(), lower=instruction["lower"])


def factor(
    lowering: ThunkLowering,
    shape: Shape,
    found: BufferAllocation,
    *,
    lower: bool,
    info: BufferAllocation | None = None,
) -> None:
    """The same of the thunk's operand; `info`, as LAPACK has it, says which pivots are not positive."""
    if not shape.size:
        return
    n, batch, dtype = shape.dims[-1], math.prod(shape.dims[:-2]), shape.dtype
    rows = Place(n, 1, n * n)
    upper = rows.adjoint if lower else rows
    system = System(dtype, batch, n, n, upper, upper, upper, is_square=True)
    left = lowering.scratch(shape.nbytes)
    lowering.copy(left, lowering.operand(0))
    # the block on the diagonal is read as a lower triangle, which its adjoint is
    triangle = replace(system, triangle=upper.adjoint)
    strips = Strips(lowering, triangle, [left, left, found, step_number(0)], factors=True).made()
    update = Update(lowering, system, [found, found, left, step_number(0)], upper.adjoint, is_hermitian=True).made()
    for start in range(0, n, depth(dtype)):
        number, beside = step_number(start), max(0, n - start - depth(dtype))
        lowering.launch(strips, Strips.blocks(system, max(1, beside)), [left, found, number])
        if beside:
            lowering.launch(update, Update.blocks(system, beside, beside), [found, left, number])
    if info is not None:
        pivots = _Info(lowering, dtype, [found, info], THREADS).made(system)
        lowering.launch(pivots, blocks_for(batch, THREADS), [found, info])
    finish = _Finish(lowering, dtype, [found], THREADS)
    lowering.launch(finish.made(system), blocks_for(shape.size, THREADS), [found])


class _Finish(MatrixKernel):
    """Zeros beside the factor; NaN everywhere where its last pivot, which all reach, is NaN."""

    def made(self, system: System) -> DeviceKernel:
        """The kernel."""
        b, n = self.b, system.n
        count = system.batch * n * n
        with self.kernel.each(count, blocks_for(count, THREADS), THREADS, self.kernel.thread) as item:
            number, rest = b.udiv(item, I64(n * n)), b.urem(item, I64(n * n))
            i, j = b.udiv(rest, I64(n)), b.urem(rest, I64(n))
            if abs(system.solution.row) == 1:
                i, j = j, i
            factor = Matrix(b, self.pointers[0], self.lanes, system.solution, number)
            pivot = factor.get(I64(n - 1), I64(n - 1))[0]
            is_bad = b.fcmp_unordered("uno", self.real(pivot), self.real(pivot))
            is_beside = b.icmp_signed(">", i, j)
            is_last = b.icmp_signed("==", b.add(i, j), I64(2 * n - 2))
            nan = ir.Constant(self.lanes.kind, [float("nan")])
            with b.if_then(b.and_(b.or_(is_bad, is_beside), b.not_(is_last))):
                factor.put(i, j, [b.select(is_bad, nan, z) for z in self.zero])
        return self.finished("zeros beside the factors, NaN in those of matrices that are not positive definite")


class _Info(MatrixKernel):
    """Of each matrix the number of its first row whose pivot is not positive, from 1; 0 where there is none."""

    def made(self, system: System) -> DeviceKernel:
        """The kernel."""
        b = self.b
        first = allocate(b, I64)
        with self.kernel.each(system.batch, blocks_for(system.batch, THREADS), THREADS, self.kernel.thread) as number:
            factor = Matrix(b, self.pointers[0], self.lanes, system.solution, number)
            b.store(I64(0), first)
            with strided(b, I64(0), I64(system.n), 1) as i:
                pivot, known = self.real(factor.get(i, i)[0]), b.load(first, typ=I64)
                is_first = b.and_(b.fcmp_unordered("uno", pivot, pivot), b.icmp_signed("==", known, I64(0)))
                b.store(b.select(is_first, b.add(i, I64(1)), known), first)
            element_access.store(b, self.pointers[1], s32, number, b.trunc(b.load(first, typ=I64), I32))
        return self.finished("which pivots are not positive, a thread for each matrix")
