"""Tridiagonal systems by elimination with row exchanges, as LAPACK's gtsv has it: a thread for each matrix factors it,
then one for each right side solves."""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cuda.kernel import THREADS, DeviceKernel, blocks_for, strided
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place, Variable
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import s32
from xloom.hlo.shape import Shape
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64


def tridiagonal_solve(
    lowering: ThunkLowering,
    right: Shape,
    diagonals: list[BufferAllocation],
    x: BufferAllocation,
    info: BufferAllocation,
) -> None:
    """x of a x = b, of the thunk's operands: the diagonals, from the lower one on, and b. `diagonals` are overwritten;
    `info` (s32) is the first pivot that is zero, from 1, or 0."""
    if not right.size:
        return
    for number, memory in enumerate([*diagonals, x]):
        lowering.copy(memory, lowering.operand(number))
    *outer, n, columns = right.dims
    batch = math.prod(outer)
    factors, exchanged = lowering.scratch(batch * n * right.dtype.bytes), lowering.scratch(batch * n * 4)
    work = _Factors(lowering, right.dtype, [*diagonals, factors, exchanged, info], THREADS)
    lowering.launch(work.made(batch, n), blocks_for(batch, THREADS), work.arguments)
    work = _Solution(lowering, right.dtype, [*diagonals, factors, exchanged, x], THREADS)
    lowering.launch(work.made(batch, n, columns), blocks_for(batch * columns, THREADS), work.arguments)


class _Rows(MatrixKernel):
    """Either kernel. Its first arguments are the diagonals, what rows are taken of those below, and whether the two are
    exchanged before (s32): once factored, what was the lower diagonal is the one above the upper one."""

    def rows(self, number: ir.Value, n: int) -> list[Matrix]:
        """Of a matrix of the batch: the diagonals and the factors, as columns."""
        return [Matrix(self.b, pointer, self.lanes, Place(1, 0, n), number) for pointer in self.pointers[:4]]

    def exchange(self, number: ir.Value, n: int, i: ir.Value) -> ir.Value:
        """Where it is written whether row i is exchanged with the next one."""
        return self.b.add(self.b.mul(number, I64(n)), i)


class _Factors(_Rows):
    """The last argument is info."""

    def made(self, batch: int, n: int) -> DeviceKernel:
        """The kernel."""
        b, none = self.b, I64(0)
        told = allocate(b, I32)
        with self.kernel.each(batch, blocks_for(batch, THREADS), THREADS, self.kernel.thread) as number:
            lower, diagonal, upper, factors = self.rows(number, n)
            b.store(I32(0), told)
            with strided(b, none, I64(n - 1), 1) as i:
                below = b.add(i, I64(1))
                pivot, beside, under = diagonal.get(i, none), upper.get(i, none), lower.get(below, none)
                next_pivot, next_beside = diagonal.get(below, none), upper.get(below, none)
                is_exchanged = b.fcmp_ordered("<", self._size(pivot), self._size(under))
                element_access.store(b, self.pointers[4], s32, self.exchange(number, n, i), b.zext(is_exchanged, I32))
                with b.if_else(is_exchanged) as (exchanged, kept):
                    with exchanged:
                        factor = self.quotient(pivot, under)
                        factors.put(i, none, factor)
                        diagonal.put(i, none, under)
                        upper.put(i, none, next_pivot)
                        lower.put(i, none, next_beside)  # two places right of the diagonal
                        diagonal.put(below, none, self.lanes.minus_product(b, beside, factor, next_pivot))
                        upper.put(below, none, self.lanes.minus_product(b, self.zero, factor, next_beside))
                    with kept:
                        self._tell(told, pivot, i)
                        factor = self.quotient(under, pivot)
                        factors.put(i, none, factor)
                        lower.put(i, none, self.zero)
                        diagonal.put(below, none, self.lanes.minus_product(b, next_pivot, factor, beside))
            last = I64(n - 1)
            self._tell(told, diagonal.get(last, none), last)
            element_access.store(b, self.pointers[5], s32, number, b.load(told, typ=I32))
        return self.finished(f"{batch} tridiagonal matrices of {n} rows factored, a thread for each")

    def _tell(self, told: ir.Value, pivot: Number, i: ir.Value) -> None:
        """Of the first pivot that is zero."""
        b = self.b
        is_zero = b.fcmp_ordered("==", self._size(pivot), ir.Constant(self.lanes.kind.element, 0.0))
        is_first = b.and_(is_zero, b.icmp_signed("==", b.load(told, typ=I32), I32(0)))
        b.store(b.select(is_first, b.trunc(b.add(i, I64(1)), I32), b.load(told, typ=I32)), told)

    def _size(self, x: Number) -> ir.Value:
        """The sum of the parts' absolute values, as LAPACK compares them."""
        first, *others = (intrinsic(self.b, "fabs", self.real(part)) for part in x)
        return self.b.fadd(first, others[0]) if others else first


class _Solution(_Rows):
    """The last argument is the right side, which becomes the solution."""

    def made(self, batch: int, n: int, columns: int) -> DeviceKernel:
        """The kernel."""
        b, none, count = self.b, I64(0), batch * columns
        near, far = Variable(b, self.lanes), Variable(b, self.lanes)
        with self.kernel.each(count, blocks_for(count, THREADS), THREADS, self.kernel.thread) as item:
            number, j = b.udiv(item, I64(columns)), b.urem(item, I64(columns))
            above, diagonal, upper, factors = self.rows(number, n)
            x = Matrix(b, self.pointers[5], self.lanes, Place(columns, 1, n * columns), number)
            near.set(x.get(none, j))
            with strided(b, none, I64(n - 1), 1) as i:
                flag = element_access.load(b, self.pointers[4], s32, self.exchange(number, n, i))
                is_exchanged = b.icmp_signed("!=", flag, I32(0))
                one, two = near.get(), x.get(b.add(i, I64(1)), j)
                first, second = (
                    [b.select(is_exchanged, v, u) for u, v in zip(p, q, strict=True)]
                    for p, q in ((one, two), (two, one))
                )
                x.put(i, j, first)
                near.set(self.lanes.minus_product(b, second, factors.get(i, none), first))
            last = I64(n - 1)
            near.set(self.quotient(near.get(), diagonal.get(last, none)))
            x.put(last, j, near.get())
            far.set(self.zero)
            with strided(b, I64(1), I64(n), 1) as step:
                i = b.sub(last, step)
                value = self.lanes.minus_product(b, x.get(i, j), upper.get(i, none), near.get())
                is_first = b.icmp_signed("==", step, I64(1))
                more = self.lanes.minus_product(b, value, above.get(i, none), far.get())
                value = [b.select(is_first, u, v) for u, v in zip(value, more, strict=True)]
                far.set(near.get())
                near.set(self.quotient(value, diagonal.get(i, none)))
                x.put(i, j, near.get())
        return self.finished(
            f"{batch} tridiagonal systems of {n} equations, a thread for each of {columns} right sides"
        )
