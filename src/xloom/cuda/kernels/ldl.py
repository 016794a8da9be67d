"""L D L^T and L D L^H of symmetric and Hermitian matrices by Bunch's and Kaufman's pivots, and systems by them.

As LAPACK keeps them (sytrf, hetrf): D has blocks of one and two rows, which pivots that are negative tell. To factor is
a block of threads for each matrix, a pivot after another; to solve, a block for each right side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cuda.kernel import THREADS, DeviceKernel, strided
from xloom.cuda.kernels.block_all_reduce import BlockAllReduce
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place, Variable
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import s32
from xloom.hlo.shape import Shape
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.types import I1, I32, I64

_GROWTH = (1 + math.sqrt(17)) / 8
"""How much smaller than others a pivot may be: so elements grow the least (Bunch and Kaufman, 1977)."""


def ldl(
    lowering: ThunkLowering,
    shape: Shape,
    found: BufferAllocation,
    pivots: BufferAllocation,
    info: BufferAllocation,
    *,
    is_hermitian: bool,
) -> None:
    """Of the lower triangles of the thunk's operand: both factors in one triangle, pivots, and the first zero pivot
    (s32, from 1; 0 where there is none)."""
    if not shape.size:
        return
    lowering.copy(found, lowering.operand(0))
    work = _Factors(lowering, shape, [found, pivots, info], is_hermitian=is_hermitian)
    lowering.launch(work.made(), work.batch, work.arguments)


def solve_by_ldl(lowering: ThunkLowering, right: Shape, found: BufferAllocation, *, is_hermitian: bool) -> None:
    """x of a x = b, of the thunk's operands: a's factors, their pivots, and b."""
    if not right.size:
        return
    lowering.copy(found, lowering.operand(2))
    *outer, n, _ = right.dims
    factors = Shape(right.dtype, (*outer, n, n))
    work = _Solution(lowering, factors, [lowering.operand(0), lowering.operand(1), found], is_hermitian=is_hermitian)
    lowering.launch(work.made(right.dims[-1]), work.batch * right.dims[-1], work.arguments)


class _WithPivots(MatrixKernel):
    """Either kernel: steps of one row or two."""

    def __init__(self, lowering: ThunkLowering, shape: Shape, arrays: list[BufferAllocation], *, is_hermitian: bool):
        super().__init__(lowering, shape.dtype, arrays, THREADS)
        self.kernel.resident_blocks = 1  # as of spectra
        self.is_hermitian = is_hermitian and shape.dtype.is_complex
        *outer, self.n, _ = shape.dims
        self.batch, self.end = math.prod(outer), I64(self.n)
        self.place = Place(self.n, 1, self.n * self.n)

    @contextmanager
    def steps(self, *, backwards: bool = False) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Rows that a step begins at, and where its width (i64) is to be stored."""
        b = self.b
        width, skips = allocate(b, I64), allocate(b, I1)
        b.store(I1(0), skips)
        with strided(b, I64(0), self.end, 1) as number:
            row = b.sub(I64(self.n - 1), number) if backwards else number
            is_skipped = b.load(skips, typ=I1)
            b.store(I1(0), skips)
            with b.if_then(b.not_(is_skipped)):
                yield row, width
                b.store(b.icmp_signed("==", b.load(width, typ=I64), I64(2)), skips)

    def turned(self, x: Number) -> Number:
        """The conjugate in a Hermitian matrix."""
        return [x[0], self.b.fneg(x[1])] if self.is_hermitian else x

    def difference(self, x: Number, y: Number) -> Number:
        """x - y."""
        return [self.b.fsub(u, v) for u, v in zip(x, y, strict=True)]

    def pair(self, a: Matrix, k: ir.Value, *, turns: bool = False) -> tuple[Number, Number, Number, Number]:
        """What divides by a block of two rows from k on, or its transpose: r/q, p/q', t/q' and t/q, where q is below
        the diagonal of p and r, q' beside it, and t = 1 / (p r / (q q') - 1)."""
        below = self.b.add(k, I64(1))
        q = a.get(below, k)
        over, over_beside = self.reciprocal(q), self.reciprocal(self.turned(q))
        if turns:
            over, over_beside = over_beside, over
        multiply = self.lanes.product
        first, second = multiply(self.b, a.get(below, below), over), multiply(self.b, a.get(k, k), over_beside)
        one = [ir.Constant(self.lanes.kind, [1.0]), *self.zero[1:]]
        t = self.reciprocal(self.difference(multiply(self.b, first, second), one))
        return first, second, multiply(self.b, t, over_beside), multiply(self.b, t, over)

    def divided(self, pair: tuple[Number, Number, Number, Number], x: Number, y: Number) -> tuple[Number, Number]:
        """A row (x, y) times the inverse of such a block."""
        b, multiply = self.b, self.lanes.product
        first, second, by_first, by_second = pair
        u = multiply(b, by_first, self.difference(multiply(b, first, x), y))
        return u, multiply(b, by_second, self.difference(multiply(b, second, y), x))


class _Factors(_WithPivots):
    """Its arguments are the matrix, the pivots and info."""

    def made(self) -> DeviceKernel:
        """The kernel."""
        b, k = self.b, self.kernel
        a = self._a = Matrix(b, self.pointers[0], self.lanes, self.place, k.block)
        kind = self.lanes.kind.element
        column, row = BlockAllReduce(k, kind, I64), BlockAllReduce(k, kind)
        self._is_first = b.icmp_signed("==", k.thread, I64(0))
        with self.each(self.n * self.n) as item:
            i, j = b.udiv(item, self.end), b.urem(item, self.end)
            with b.if_then(b.icmp_signed("<", i, j)):
                a.put(i, j, self.zero)
            if self.is_hermitian:
                with b.if_then(b.icmp_signed("==", i, j)):
                    a.put(i, j, [a.get(i, j)[0], *self.zero[1:]])
        with b.if_then(self._is_first):
            element_access.store(b, self.pointers[2], s32, k.block, I32(0))
        with self.steps() as (c, width):
            pivot = self._pivot(c, column, row, width)
            last = b.add(c, b.sub(b.load(width, typ=I64), I64(1)))
            is_bad = self._tell(c, pivot, width)
            k.barrier()
            with b.if_then(b.icmp_signed("!=", pivot, last)):
                self._exchange(c, last, pivot, width)
            k.barrier()
            is_pair = b.icmp_signed("==", b.load(width, typ=I64), I64(2))
            with b.if_then(b.not_(is_bad)), b.if_else(is_pair) as (two, one):
                with two:
                    self._take_pair(c)
                with one:
                    self._take_one(c)
        kind_name = "Hermitian" if self.is_hermitian else "symmetric"
        return self.finished(f"{self.batch} {kind_name} matrices of {self.n} rows factored, a block for each")

    def _pivot(self, c: ir.Value, column: BlockAllReduce, row: BlockAllReduce, width: ir.Value) -> ir.Value:
        """The row that comes to the step's last one; stores how many rows the step has."""
        b, k, a = self.b, self.kernel, self._a
        kind = self.lanes.kind.element
        zero, growth = ir.Constant(kind, 0.0), ir.Constant(kind, _GROWTH)
        size, place = allocate(b, kind), allocate(b, I64)
        b.store(ir.Constant(kind, -1.0), size)
        b.store(c, place)
        with strided(b, b.add(b.add(c, I64(1)), k.thread), self.end, k.threads) as i:
            here, known = self._size(a.get(i, c)), b.load(size, typ=kind)
            is_greater = b.fcmp_ordered(">", here, known)
            b.store(b.select(is_greater, here, known), size)
            b.store(b.select(is_greater, i, b.load(place, typ=I64)), place)
        other = column.argmax(b.load(size, typ=kind), b.load(place, typ=I64))
        own, below = self._size(a.get(c, c)), self._size(a.get(other, c))
        below = b.select(b.icmp_signed("==", other, c), zero, below)
        b.store(zero, size)
        with strided(b, b.add(c, k.thread), self.end, k.threads) as j, b.if_then(b.icmp_signed("!=", j, other)):
            upper, lower = intrinsic(b, "smin", j, other), intrinsic(b, "smax", j, other)
            b.store(intrinsic(b, "maximum", b.load(size, typ=kind), self._size(a.get(lower, upper))), size)
        beside = row.greatest(b.load(size, typ=kind))
        bound = b.fmul(growth, below)
        is_great = b.fcmp_ordered(">=", own, bound)
        is_great = b.or_(is_great, b.fcmp_ordered(">=", own, b.fmul(bound, b.fdiv(below, beside))))
        keeps = b.or_(is_great, b.not_(self._is_number(own, below)))
        is_other = b.fcmp_ordered(">=", self._size(a.get(other, other)), b.fmul(growth, beside))
        b.store(b.select(b.or_(keeps, is_other), I64(1), I64(2)), width)
        return b.select(keeps, c, other)

    def _is_number(self, own: ir.Value, below: ir.Value) -> ir.Value:
        """Whether there is something to divide by."""
        b, zero = self.b, ir.Constant(own.type, 0.0)
        is_zero = b.and_(b.fcmp_ordered("==", own, zero), b.fcmp_ordered("==", below, zero))
        return b.not_(b.or_(is_zero, b.fcmp_unordered("uno", own, own)))

    def _tell(self, c: ir.Value, pivot: ir.Value, width: ir.Value) -> ir.Value:
        """Writes the pivots; whether the step has nothing to divide by, which `info` tells."""
        b, k, a = self.b, self.kernel, self._a
        own, is_pair = self._size(a.get(c, c)), b.icmp_signed("==", b.load(width, typ=I64), I64(2))
        zero = ir.Constant(own.type, 0.0)
        is_bad = b.and_(b.not_(is_pair), b.icmp_signed("==", pivot, c))
        is_bad = b.and_(is_bad, b.fcmp_unordered("ueq", own, zero))
        row = b.trunc(b.add(pivot, I64(1)), I32)
        with b.if_then(self._is_first):
            at = b.add(b.mul(k.block, self.end), c)
            element_access.store(b, self.pointers[1], s32, at, b.select(is_pair, b.neg(row), row))
            with b.if_then(is_pair):
                element_access.store(b, self.pointers[1], s32, b.add(at, I64(1)), b.neg(row))
            with b.if_then(is_bad):
                known = element_access.load(b, self.pointers[2], s32, k.block)
                told = b.select(b.icmp_signed("==", known, I32(0)), b.trunc(b.add(c, I64(1)), I32), known)
                element_access.store(b, self.pointers[2], s32, k.block, told)
        return is_bad

    def _exchange(self, c: ir.Value, last: ir.Value, pivot: ir.Value, width: ir.Value) -> None:
        """Rows and columns, of the triangle that is left."""
        b, k, a = self.b, self.kernel, self._a
        with strided(b, b.add(b.add(last, I64(1)), k.thread), self.end, k.threads) as i:
            with b.if_then(b.icmp_signed(">", i, pivot)):
                self._swap((i, last), (i, pivot))
            with b.if_then(b.icmp_signed("<", i, pivot)):
                self._swap((i, last), (pivot, i), turns=True)
        with b.if_then(self._is_first):
            self._swap((last, last), (pivot, pivot))
            if self.is_hermitian:
                a.put(pivot, last, self.turned(a.get(pivot, last)))
            with b.if_then(b.icmp_signed("==", b.load(width, typ=I64), I64(2))):
                self._swap((last, c), (pivot, c))

    def _swap(self, one: tuple[ir.Value, ir.Value], other: tuple[ir.Value, ir.Value], *, turns: bool = False) -> None:
        a = self._a
        x, y = a.get(*one), a.get(*other)
        a.put(*one, self.turned(y) if turns else y)
        a.put(*other, self.turned(x) if turns else x)

    def _take_one(self, c: ir.Value) -> None:
        """From what is right of a column, with one pivot."""
        b, k, a = self.b, self.kernel, self._a
        over = self.reciprocal(a.get(c, c))
        first = b.add(c, I64(1))
        with self._rest(first) as (i, j):
            part = self.lanes.product(b, a.get(j, c), over)
            self._put(i, j, self.lanes.minus_product(b, a.get(i, j), a.get(i, c), self.turned(part)))
        k.barrier()
        with strided(b, b.add(first, k.thread), self.end, k.threads) as i:
            a.put(i, c, self.lanes.product(b, a.get(i, c), over))

    def _take_pair(self, c: ir.Value) -> None:
        """The same of two columns."""
        b, k, a = self.b, self.kernel, self._a
        pair, second = self.pair(a, c), b.add(c, I64(1))
        first = b.add(c, I64(2))
        with self._rest(first) as (i, j):
            u, v = self.divided(pair, a.get(j, c), a.get(j, second))
            value = self.lanes.minus_product(b, a.get(i, j), a.get(i, c), self.turned(u))
            self._put(i, j, self.lanes.minus_product(b, value, a.get(i, second), self.turned(v)))
        k.barrier()
        with strided(b, b.add(first, k.thread), self.end, k.threads) as i:
            u, v = self.divided(pair, a.get(i, c), a.get(i, second))
            a.put(i, c, u)
            a.put(i, second, v)

    @contextmanager
    def _rest(self, first: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
        """The elements of the triangle from a row on."""
        b, k = self.b, self.kernel
        size = b.sub(self.end, first)
        with strided(b, k.thread, b.mul(size, size), k.threads) as item:
            i, j = b.add(first, b.sdiv(item, size)), b.add(first, b.srem(item, size))
            with b.if_then(b.icmp_signed(">=", i, j)):
                yield i, j

    def _put(self, i: ir.Value, j: ir.Value, value: Number) -> None:
        """An element, which is real on a Hermitian matrix's diagonal."""
        if self.is_hermitian:
            value = [value[0], self.b.select(self.b.icmp_signed("==", i, j), self.zero[1], value[1])]
        self._a.put(i, j, value)

    def _size(self, x: Number) -> ir.Value:
        """The sum of the parts' absolute values, as LAPACK compares them."""
        first, *others = (intrinsic(self.b, "fabs", self.real(part)) for part in x)
        return self.b.fadd(first, others[0]) if others else first


class _Solution(_WithPivots):
    """Its arguments are the factors, the pivots and what becomes the solution."""

    def made(self, columns: int) -> DeviceKernel:
        """The kernel."""
        b, k = self.b, self.kernel
        number, self._column = b.udiv(k.block, I64(columns)), b.urem(k.block, I64(columns))
        a = Matrix(b, self.pointers[0], self.lanes, self.place, number)
        x = self._x = Matrix(b, self.pointers[2], self.lanes, Place(columns, 1, self.n * columns), number)
        self._is_first = b.icmp_signed("==", k.thread, I64(0))
        sums = [BlockAllReduce(k, self.lanes.kind.element) for _ in range(2 * self.lanes.parts)]

        with self.steps() as (c, width):
            row, is_pair = self._row(number, c, width)
            last = b.select(is_pair, b.add(c, I64(1)), c)
            with b.if_then(self._is_first):
                self._exchange(last, row)
            k.barrier()
            one, two = x.get(c, self._column), x.get(last, self._column)
            with strided(b, b.add(b.add(last, I64(1)), k.thread), self.end, k.threads) as i:
                value = Variable(b, self.lanes)
                value.set(self.lanes.minus_product(b, x.get(i, self._column), a.get(i, c), one))
                with b.if_then(is_pair):
                    value.set(self.lanes.minus_product(b, value.get(), a.get(i, last), two))
                x.put(i, self._column, value.get())
            k.barrier()
            with b.if_then(self._is_first), b.if_else(is_pair) as (has_two, has_one):
                with has_two:
                    found = self.divided(self.pair(a, c, turns=True), one, two)
                    for row, value in zip((c, last), found, strict=True):
                        x.put(row, self._column, value)
                with has_one:
                    x.put(c, self._column, self.lanes.product(b, one, self.reciprocal(a.get(c, c))))
            k.barrier()
        with self.steps(backwards=True) as (last, width):
            row, is_pair = self._row(number, last, width)
            c = b.select(is_pair, b.sub(last, I64(1)), last)
            totals = [Variable(b, self.lanes) for _ in range(2)]
            for total in totals:
                total.set(self.zero)
            with strided(b, b.add(b.add(last, I64(1)), k.thread), self.end, k.threads) as i:
                for total, column in zip(totals, (c, last), strict=True):
                    part = self.turned(a.get(i, column))
                    total.set(self.lanes.minus_product(b, total.get(), part, x.get(i, self._column)))
            parts = [self.real(part) for total in totals for part in total.get()]
            parts = [self.vector(each.sum(part)) for each, part in zip(sums, parts, strict=True)]
            more, less = parts[: self.lanes.parts], parts[self.lanes.parts :]
            with b.if_then(self._is_first):
                self._add(last, less)
                with b.if_then(is_pair):
                    self._add(c, more)
                self._exchange(last, row)
            k.barrier()
        return self.finished(f"{self.batch} systems of {self.n} equations by L D L^T, a block for each right side")

    def _row(self, number: ir.Value, c: ir.Value, width: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row that a step's last one is exchanged with, and whether it is of two; stores how many it is of."""
        b = self.b
        at = b.add(b.mul(number, self.end), c)
        pivot = b.sext(element_access.load(b, self.pointers[1], s32, at), I64)
        is_pair = b.icmp_signed("<", pivot, I64(0))
        b.store(b.select(is_pair, I64(2), I64(1)), width)
        return b.sub(b.select(is_pair, b.neg(pivot), pivot), I64(1)), is_pair

    def _add(self, row: ir.Value, value: Number) -> None:
        known = self._x.get(row, self._column)
        self._x.put(row, self._column, [self.b.fadd(u, v) for u, v in zip(known, value, strict=True)])

    def _exchange(self, row: ir.Value, other: ir.Value) -> None:
        x, y = (self._x.get(each, self._column) for each in (row, other))
        self._x.put(row, self._column, y)
        self._x.put(other, self._column, x)
