"""QR factors by Householder's reflections I - tau v v*, as LAPACK keeps them: a block of threads for each matrix."""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cuda.kernel import THREADS, WARP, DeviceKernel, strided
from xloom.cuda.kernels.block_all_reduce import BlockAllReduce
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place, Variable
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.shape import Shape
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.power_of_two import scaling
from xloom.llvm.types import I1, I64

_GROUPS = THREADS // WARP
"""Of rows, whose sums a block puts together for each of `WARP` columns."""


def reflections(lowering: ThunkLowering, shape: Shape, found: BufferAllocation, taus: BufferAllocation) -> None:
    """geqrf of the thunk's operand: R, below it the vectors v, whose first elements are 1, and tau of each."""
    if not shape.size:
        return
    lowering.copy(found, lowering.operand(0))
    work = _Reflections(lowering, shape, [found, taus])
    lowering.launch(work.factored(), work.batch, work.arguments)


def unitary(lowering: ThunkLowering, shape: Shape, count: int, found: BufferAllocation) -> None:
    """orgqr or ungqr of the thunk's operands: the first columns of the product of `count` reflections."""
    if not shape.size:
        return
    lowering.copy(found, lowering.operand(0))
    work = _Reflections(lowering, shape, [found, lowering.operand(1)])
    lowering.launch(work.multiplied(count), work.batch, work.arguments)


def product(
    lowering: ThunkLowering, vectors: Shape, other: Shape, found: BufferAllocation, *, left: bool, transpose: bool
) -> None:
    """ormqr or unmqr of the thunk's operands: a matrix times the product of all reflections, or its adjoint."""
    if not other.size:
        return
    lowering.copy(found, lowering.operand(2))
    rows, columns = other.dims[-2:] if left else reversed(other.dims[-2:])
    place = Place(other.dims[-1], 1, rows * columns)
    groups = -(-columns // WARP)
    work = _Reflections(lowering, vectors, [lowering.operand(0), lowering.operand(1), found], groups)
    # x q is the adjoint of q* x*
    kernel = work.applied(place if left else place.adjoint, columns, is_adjoint=transpose == left)
    lowering.launch(kernel, work.batch * groups, work.arguments)


class _Reflections(MatrixKernel):
    """Emits the kernels: their arguments are the matrix and the numbers tau. A matrix has so many blocks."""

    def __init__(self, lowering: ThunkLowering, shape: Shape, arrays: list[BufferAllocation], blocks: int = 1):
        super().__init__(lowering, shape.dtype, arrays, THREADS)
        *outer, self._m, self._n = shape.dims
        self.batch, self._blocks = math.prod(outer), blocks
        self._number = self.b.udiv(self.kernel.block, I64(blocks))
        place = Place(self._n, 1, self._m * self._n)
        self._matrix = Matrix(self.b, self.pointers[0], self.lanes, place, self._number)
        self._partial, self._whole = self.tile(_GROUPS, WARP), self.tile(1, WARP)

    def factored(self) -> DeviceKernel:
        """A reflection for each column, which is done to those behind it."""
        b, k, a, count = self.b, self.kernel, self._matrix, min(self._m, self._n)
        kind = self.lanes.kind.element
        sizes, squares = BlockAllReduce(k, kind), BlockAllReduce(k, kind)
        zero, one = ir.Constant(kind, 0.0), ir.Constant(kind, 1.0)
        kept = allocate(b, kind)
        with strided(b, I64(0), I64(count), 1) as c:
            below = b.add(b.add(c, I64(1)), k.thread)
            b.store(zero, kept)
            with strided(b, below, I64(self._m), k.threads) as i:
                for part in a.get(i, c):
                    here = intrinsic(b, "fabs", self.real(part))
                    b.store(intrinsic(b, "maximum", b.load(kept, typ=kind), here), kept)
            greatest = sizes.greatest(b.load(kept, typ=kind))
            alpha = [self.real(part) for part in a.get(c, c)]
            is_real = b.fcmp_ordered("==", alpha[1], zero) if len(alpha) == 2 else I1(1)
            is_nothing = b.and_(b.fcmp_ordered("==", greatest, zero), is_real)
            for part in alpha:
                greatest = intrinsic(b, "maximum", greatest, intrinsic(b, "fabs", part))
            scale, back = scaling(b, greatest)
            scaled = [b.fmul(part, scale) for part in alpha]
            b.store(zero, kept)
            with strided(b, below, I64(self._m), k.threads) as i:
                for part in a.get(i, c):
                    x = b.fmul(self.real(part), scale)
                    b.store(intrinsic(b, "fma", x, x, b.load(kept, typ=kind)), kept)
            square = squares.sum(b.load(kept, typ=kind))
            for part in scaled:
                square = intrinsic(b, "fma", part, part, square)
            length = intrinsic(b, "sqrt", square)
            beta = b.select(b.fcmp_ordered(">=", scaled[0], zero), b.fneg(length), length)
            safe = b.select(is_nothing, one, beta)
            tau = [b.fsub(beta, scaled[0]), *(b.fneg(part) for part in scaled[1:])]
            tau = [self.vector(b.select(is_nothing, zero, b.fdiv(part, safe))) for part in tau]
            divisor = [b.select(is_nothing, one, b.fsub(scaled[0], beta)), *scaled[1:]]
            over = self.reciprocal([self.vector(part) for part in divisor])
            with b.if_then(b.icmp_signed("==", k.thread, I64(0))):
                beta = b.select(is_nothing, alpha[0], b.fmul(beta, back))
                a.put(c, c, [self.vector(beta), *self.zero[1:]])
                self.lanes.store(b, self.pointers[1], self._of_tau(c, count), tau)
            with strided(b, below, I64(self._m), k.threads) as i:
                x = [b.fmul(part, self.vector(scale)) for part in a.get(i, c)]
                a.put(i, c, self.lanes.product(b, x, over))
            k.barrier()
            self._reflect(c, self._conjugate(tau), a, b.add(c, I64(1)), I64(self._n))
        return self.finished(f"{count} reflections of each of {self.batch} matrices of {self._m} x {self._n}")

    def multiplied(self, count: int) -> DeviceKernel:
        """The product of the reflections, the last one first, in place."""
        b, k, a = self.b, self.kernel, self._matrix
        one = [ir.Constant(self.lanes.kind, [1.0]), *self.zero[1:]]
        others = self._n - count
        if others:
            with self.each(self._m * others) as item:
                i, j = b.udiv(item, I64(others)), b.add(b.urem(item, I64(others)), I64(count))
                is_one = b.icmp_signed("==", i, j)
                a.put(i, j, [b.select(is_one, x, z) for x, z in zip(one, self.zero, strict=True)])
            k.barrier()
        with strided(b, I64(0), I64(count), 1) as step:
            c = b.sub(I64(count - 1), step)
            tau = self.lanes.load(b, self.pointers[1], self._of_tau(c, count))
            self._reflect(c, tau, a, b.add(c, I64(1)), I64(self._n))
            minus = [b.fneg(part) for part in tau]
            with strided(b, k.thread, I64(self._m), k.threads) as i:
                old = Variable(b, self.lanes)
                old.set(self.zero)
                with b.if_then(b.icmp_signed(">", i, c)):
                    old.set(self.lanes.product(b, a.get(i, c), minus))
                with b.if_then(b.icmp_signed("==", i, c)):
                    old.set([b.fadd(x, y) for x, y in zip(one, minus, strict=True)])
                a.put(i, c, old.get())
            k.barrier()
        return self.finished(f"the product of {count} reflections for each of {self.batch} matrices of {self._m} rows")

    def applied(self, place: Place, columns: int, *, is_adjoint: bool) -> DeviceKernel:
        """The same done to other matrices, `WARP` columns by a block."""
        b, count = self.b, min(self._m, self._n)
        x = Matrix(b, self.pointers[2], self.lanes, place, self._number)
        first = b.mul(b.urem(self.kernel.block, I64(self._blocks)), I64(WARP))
        end = intrinsic(b, "smin", b.add(first, I64(WARP)), I64(columns))
        with strided(b, I64(0), I64(count), 1) as step:
            c = step if is_adjoint else b.sub(I64(count - 1), step)
            tau = self.lanes.load(b, self.pointers[1], self._of_tau(c, count))
            self._reflect(c, self._conjugate(tau) if is_adjoint else tau, x, first, end)
        return self.finished(f"{count} reflections of {columns} columns of each of {self.batch} matrices")

    def _of_tau(self, c: ir.Value, count: int) -> ir.Value:
        return self.b.add(self.b.mul(self._number, I64(count)), c)

    def _reflect(self, c: ir.Value, tau: Number, x: Matrix, start: ir.Value, end: ir.Value) -> None:
        """Takes tau v (v* x) from some columns of x; v is what is below the diagonal of c, and 1."""
        b, k, a = self.b, self.kernel, self._matrix
        group, lane = k.warp, k.lane
        below = b.add(c, I64(1))
        with strided(b, start, end, WARP) as first:
            j = b.add(first, lane)
            inside = b.icmp_signed("<", j, end)
            total = Variable(b, self.lanes)
            total.set(self.zero)
            with b.if_then(inside), strided(b, b.add(below, group), I64(self._m), _GROUPS) as i:
                minus = [b.fneg(part) for part in self._conjugate(a.get(i, c))]
                total.set(self.lanes.minus_product(b, total.get(), minus, x.get(i, j)))
            self._partial.put(group, lane, total.get())
            k.barrier()
            with b.if_then(b.and_(inside, b.icmp_signed("==", group, I64(0)))):
                sums = [self._partial.get(I64(g), lane) for g in range(_GROUPS)]
                whole = x.get(c, j)
                for part in sums:
                    whole = [b.fadd(u, v) for u, v in zip(whole, part, strict=True)]
                whole = self.lanes.product(b, whole, tau)
                self._whole.put(I64(0), lane, whole)
                x.put(c, j, [b.fsub(u, v) for u, v in zip(x.get(c, j), whole, strict=True)])
            k.barrier()
            with b.if_then(inside), strided(b, b.add(below, group), I64(self._m), _GROUPS) as i:
                taken = self.lanes.minus_product(b, x.get(i, j), a.get(i, c), self._whole.get(I64(0), lane))
                x.put(i, j, taken)
        k.barrier()

    def _conjugate(self, x: Number) -> Number:
        return [x[0], *(self.b.fneg(part) for part in x[1:])]
