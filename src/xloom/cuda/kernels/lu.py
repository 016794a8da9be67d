"""LU factors with row exchanges, some columns after others.

For each step a block of threads factors a matrix's columns from its pivots downwards, a kernel exchanges the rows of
the others, and `Strips` and `Update` do what is right of them.
"""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cuda.kernel import THREADS, DeviceKernel, blocks_for, strided
from xloom.cuda.kernels.block_all_reduce import BlockAllReduce
from xloom.cuda.kernels.blocked_matrix import Strips, System, Update, depth, step_number
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place, Variable
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import s32
from xloom.hlo.shape import Shape
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64


def lu(
    lowering: ThunkLowering, shape: Shape, found: BufferAllocation, pivots: BufferAllocation, info: BufferAllocation
) -> None:
    """Of the thunk's operand: both factors, the rows that were exchanged (s32, from 1), and the first zero pivot (s32,
    from 1; 0 where there is none)."""
    if not shape.size:
        return
    *outer, m, n = shape.dims
    dtype, batch, rows = shape.dtype, math.prod(outer), depth(shape.dtype)
    lowering.copy(found, lowering.operand(0))
    place = Place(n, 1, m * n)
    system = System(dtype, batch, m, n, place, place, place, is_unit=True, is_square=True)
    number = step_number(0)
    panel = _Panel(lowering, dtype, [found, pivots, info, number], THREADS).made(system)
    exchange = _Exchange(lowering, dtype, [found, pivots, number], THREADS).made(system)
    strips = Strips(lowering, system, [found, found, found, number]).made()
    update = Update(lowering, system, [found, found, found, number], place).made()
    for start in range(0, min(m, n), rows):
        number, beside, below = step_number(start), max(0, n - start - rows), max(0, m - start - rows)
        lowering.launch(panel, batch, [found, pivots, info, number])
        if n > rows:
            lowering.launch(exchange, blocks_for(batch * n, THREADS), [found, pivots, number])
        if beside:
            lowering.launch(strips, Strips.blocks(system, beside), [found, number])
        if beside and below:
            lowering.launch(update, Update.blocks(system, below, beside), [found, number])


class _Panel(MatrixKernel):
    """The columns of a step, from its pivots downwards: a block for each matrix."""

    def made(self, system: System) -> DeviceKernel:
        """The kernel."""
        b, s, k = self.b, system, self.kernel
        start, number = self.number(3), k.block
        matrix = Matrix(b, self.pointers[0], self.lanes, s.solution, number)
        m, n = I64(s.n), I64(s.m)
        last = intrinsic(b, "smin", b.add(start, I64(depth(s.dtype))), n)
        steps = intrinsic(b, "smin", last, m)
        count = min(s.n, s.m)
        is_first = b.icmp_signed("==", k.thread, I64(0))
        with b.if_then(b.and_(is_first, b.icmp_signed("==", start, I64(0)))):
            element_access.store(b, self.pointers[2], s32, number, I32(0))
        best = BlockAllReduce(k, self.lanes.kind.element, I64)
        with strided(b, start, steps, 1) as c:
            row = self._pivot(matrix, c, m, best)
            with b.if_then(is_first):
                at = b.add(b.mul(number, I64(count)), c)
                element_access.store(b, self.pointers[1], s32, at, b.trunc(b.add(row, I64(1)), I32))
            with strided(b, b.add(start, k.thread), last, k.threads) as j:
                upper, lower = matrix.get(c, j), matrix.get(row, j)
                matrix.put(c, j, lower)
                with b.if_then(b.icmp_signed("!=", row, c)):
                    matrix.put(row, j, upper)
            k.barrier()
            pivot = matrix.get(c, c)
            is_zero = self._is_zero(pivot)
            with b.if_then(b.and_(is_first, is_zero)):
                known = element_access.load(b, self.pointers[2], s32, number)
                told = b.select(b.icmp_signed("==", known, I32(0)), b.trunc(b.add(c, I64(1)), I32), known)
                element_access.store(b, self.pointers[2], s32, number, told)
            begin = b.add(c, I64(1))
            with strided(b, b.add(begin, k.thread), m, k.threads) as i, b.if_then(b.not_(is_zero)):
                matrix.put(i, c, self.quotient(matrix.get(i, c), pivot))
            k.barrier()
            width = b.sub(last, begin)
            with (
                b.if_then(b.icmp_signed(">", width, I64(0))),
                strided(b, k.thread, b.mul(width, b.sub(m, begin)), k.threads) as item,
            ):
                i, j = b.add(begin, b.sdiv(item, width)), b.add(begin, b.srem(item, width))
                matrix.put(i, j, self.lanes.minus_product(b, matrix.get(i, j), matrix.get(i, c), matrix.get(c, j)))
            k.barrier()
        return self.finished(f"{depth(s.dtype)} columns of {s.batch} matrices of {s.n} rows factored, a block for each")

    def _pivot(self, matrix: Matrix, c: ir.Value, m: ir.Value, best: BlockAllReduce) -> ir.Value:
        """The row of a column's greatest number, the first of several, from row c on. All threads get it."""
        b, k = self.b, self.kernel
        kind = self.lanes.kind.element
        size, place = allocate(b, kind), allocate(b, I64)
        b.store(ir.Constant(kind, -1.0), size)
        b.store(c, place)
        with strided(b, b.add(c, k.thread), m, k.threads) as i:
            here, known = self._size(matrix.get(i, c)), b.load(size, typ=kind)
            is_greater = b.fcmp_ordered(">", here, known)
            b.store(b.select(is_greater, here, known), size)
            b.store(b.select(is_greater, i, b.load(place, typ=I64)), place)
        return best.argmax(b.load(size, typ=kind), b.load(place, typ=I64))

    def _size(self, x: Number) -> ir.Value:
        """The sum of the parts' absolute values, as LAPACK compares them."""
        first, *others = (intrinsic(self.b, "fabs", self.real(part)) for part in x)
        return self.b.fadd(first, others[0]) if others else first

    def _is_zero(self, x: Number) -> ir.Value:
        return self.b.fcmp_ordered("==", self._size(x), ir.Constant(self.lanes.kind.element, 0.0))


class _Exchange(MatrixKernel):
    """Exchanges the rows that a step's pivots name, in all columns but its own: a thread for each."""

    def made(self, system: System) -> DeviceKernel:
        """The kernel."""
        b, s, k = self.b, system, self.kernel
        start, count = self.number(2), min(s.n, s.m)
        total = s.batch * s.m
        end = b.add(start, I64(depth(s.dtype)))
        steps = intrinsic(b, "smin", end, I64(count))
        with k.each(total, blocks_for(total, THREADS), THREADS, k.thread) as item:
            number, j = b.udiv(item, I64(s.m)), b.urem(item, I64(s.m))
            matrix = Matrix(b, self.pointers[0], self.lanes, s.solution, number)
            is_other = b.or_(b.icmp_signed("<", j, start), b.icmp_signed(">=", j, end))
            with b.if_then(is_other), strided(b, start, steps, 1) as c:
                pivot = element_access.load(b, self.pointers[1], s32, b.add(b.mul(number, I64(count)), c))
                row = b.sub(b.sext(pivot, I64), I64(1))
                upper, lower = Variable(b, self.lanes), matrix.get(row, j)
                upper.set(matrix.get(c, j))
                matrix.put(c, j, lower)
                matrix.put(row, j, upper.get())
        return self.finished(f"rows of {s.batch} matrices exchanged, a thread for each of {s.m} columns")
