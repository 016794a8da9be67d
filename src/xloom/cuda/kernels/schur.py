"""Schur's form Z T Z* of matrices by shifted QR steps on a Hessenberg matrix: a block of threads for each matrix.

Real matrices are done two shifts at a time (Francis), so that T stays real: complex pairs of eigenvalues are left in
blocks of two rows. What is small beside its neighbours on the diagonal is taken for zero, as in LAPACK's hqr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cuda.kernel import THREADS, DeviceKernel, strided
from xloom.cuda.kernels.block_all_reduce import BlockAllReduce
from xloom.cuda.kernels.matrix_kernel import Matrix, Place, Variable
from xloom.cuda.kernels.similarity import Reflection, SimilarityKernel
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import s32
from xloom.hlo.shape import Shape
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.power_of_two import scaling
from xloom.llvm.routine import repeat
from xloom.llvm.types import I1, I32, I64

_Elements = Callable[[ir.Value], Number]
_STEPS = 30
"""For each row, at most; some two are enough for most matrices."""
_EXCEPTIONAL = 10
"""Steps after which a shift is another one, in case that they go round in circles; its numbers are LAPACK's."""


class SchurForm(SimilarityKernel):
    """Its arguments are the matrices, T of what they are when they are scaled to about one, Z, memory for a row of
    each, the eigenvalues (real and imaginary parts of real matrices), and s32: how many eigenvalues are not known."""

    def __init__(self, lowering: ThunkLowering, shape: Shape, arrays: Sequence[BufferAllocation]):
        super().__init__(lowering, shape.dtype, arrays, THREADS)
        self.kernel.resident_blocks = 1  # as of spectra
        self._n, self._is_complex = shape.dims[-1], shape.dtype.is_complex
        self._width = 2 if self._is_complex else 3
        self._epsilon = float(np.finfo(shape.dtype.real.numpy).eps)
        source, t, z, row, *self._values, self._info = self.pointers
        n = self._n
        self._source, self._t, self._z = (self._matrix(p, Place(n, 1, n * n)) for p in (source, t, z))
        self._row = self._matrix(row, Place(0, 1, n))
        self._sizes, self._squares = (BlockAllReduce(self.kernel, self.kind) for _ in range(2))

    def _matrix(self, pointer: ir.Value, place: Place) -> Matrix:
        return Matrix(self.b, pointer, self.lanes, place, self.kernel.block)

    def made(self, batch: int) -> DeviceKernel:
        """The kernel."""
        b, n = self.b, self._n
        back, is_finite = self._copy()
        if n > 2:
            with strided(b, I64(0), I64(n - 2), 1) as c:
                self._reduce(c)
        end = self._iterate(is_finite)
        self._eigenvalues(back)
        with b.if_then(self.is_first):
            element_access.store(b, self._info, s32, self.kernel.block, b.trunc(b.add(end, I64(1)), I32))
        return self.finished(f"Schur's form of {batch} matrices of {n} rows, a block for each")

    def _copy(self) -> tuple[ir.Value, ir.Value]:
        """T is the matrix, scaled, and Z the identity. What undoes the scaling, and whether all is finite."""
        b, kept, n = self.b, allocate(self.b, self.kind), self._n
        b.store(self.constant(0), kept)
        with self.each(n * n) as item:
            for part in self._source.get(b.udiv(item, I64(n)), b.urem(item, I64(n))):
                size = intrinsic(b, "fabs", self.real(part))
                b.store(intrinsic(b, "maximum", b.load(kept, typ=self.kind), size), kept)
        greatest = self._sizes.greatest(b.load(kept, typ=self.kind))
        scale, back = scaling(b, greatest)
        with self.each(n * n) as item:
            i, j = b.udiv(item, I64(n)), b.urem(item, I64(n))
            self._t.put(i, j, [b.fmul(part, self.vector(scale)) for part in self._source.get(i, j)])
            one = b.select(b.icmp_signed("==", i, j), self.constant(1), self.constant(0))
            self._z.put(i, j, self.number_of(one))
        self.kernel.barrier()
        return back, b.fcmp_ordered("==", b.fsub(greatest, greatest), self.constant(0))

    # -- Hessenberg's form
    def _reduce(self, c: ir.Value) -> None:
        """Makes zeros of what is below the subdiagonal in a column, by a reflection of all rows below the diagonal."""
        b, k, t, row, end = self.b, self.kernel, self._t, self._row, I64(self._n)
        top = b.add(c, I64(1))
        below = b.add(b.add(c, I64(2)), k.thread)
        kept = allocate(b, self.kind)
        b.store(self.constant(0), kept)
        with strided(b, below, end, k.threads) as i:
            for part in t.get(i, c):
                size = intrinsic(b, "fabs", self.real(part))
                b.store(intrinsic(b, "maximum", b.load(kept, typ=self.kind), size), kept)
        scale, back = scaling(b, self._sizes.greatest(b.load(kept, typ=self.kind)))
        b.store(self.constant(0), kept)
        with strided(b, below, end, k.threads) as i:
            for part in t.get(i, c):
                x = b.fmul(self.real(part), scale)
                b.store(intrinsic(b, "fma", x, x, b.load(kept, typ=self.kind)), kept)
        length = b.fmul(intrinsic(b, "sqrt", self._squares.sum(b.load(kept, typ=self.kind))), back)
        # all below is one number to the first, of this length
        r = self.reflection([t.get(top, c), self.number_of(length)])
        is_nothing = b.fcmp_ordered("==", length, self.constant(0))
        over = self.vector(b.fdiv(self.constant(1), b.select(is_nothing, self.constant(1), length)))
        k.barrier()
        with strided(b, below, end, k.threads) as i:
            unit = [b.fmul(part, over) for part in t.get(i, c)]
            row.put(I64(0), i, self.lanes.product(b, unit, r.vector[0]))
            t.put(i, c, self.zero)
        with b.if_then(self.is_first):
            row.put(I64(0), top, self.number_of(self.constant(1)))
            t.put(top, c, self.number_of(r.beta))
        k.barrier()
        factor = self.conjugate(r.tau)
        with strided(b, b.add(top, k.thread), end, k.threads) as j:
            total = self._total(top, lambda i: t.get(i, j), lambda i: self.conjugate(row.get(I64(0), i)), factor)
            with strided(b, top, end, 1) as i:
                t.put(i, j, self.lanes.minus_product(b, t.get(i, j), row.get(I64(0), i), total))
        k.barrier()
        self._reduce_columns(t, top, r.tau)
        self._reduce_columns(self._z, top, r.tau)
        k.barrier()

    def _reduce_columns(self, a: Matrix, top: ir.Value, tau: Number) -> None:
        """A matrix times the reflection of rows from `top` on."""
        b, k, row, end = self.b, self.kernel, self._row, I64(self._n)
        with strided(b, k.thread, end, k.threads) as i:
            total = self._total(top, lambda j: a.get(i, j), lambda j: row.get(I64(0), j), tau)
            with strided(b, top, end, 1) as j:
                weight = self.conjugate(row.get(I64(0), j))
                a.put(i, j, self.lanes.minus_product(b, a.get(i, j), weight, total))

    def _total(self, begin: ir.Value, element: _Elements, weight: _Elements, factor: Number) -> Number:
        """The sum of elements times weights, times a factor."""
        b, total = self.b, Variable(self.b, self.lanes)
        total.set(self.zero)
        with strided(b, begin, I64(self._n), 1) as i:
            minus = [b.fneg(part) for part in weight(i)]
            total.set(self.lanes.minus_product(b, total.get(), element(i), minus))
        return self.lanes.product(b, total.get(), factor)

    # -- steps
    def _iterate(self, is_finite: ir.Value) -> ir.Value:
        """Steps until all eigenvalues are known. The last row whose is not; -1 if there is none."""
        b, k, n = self.b, self.kernel, self._n
        end_slot, begin_slot, tries, steps = (allocate(b, I64) for _ in range(4))
        most = I64(_STEPS * max(n, 2))
        b.store(I64(n - 1), end_slot)
        b.store(I64(0), tries)
        b.store(b.select(is_finite, I64(0), most), steps)

        def goes_on() -> ir.Value:
            is_left = b.icmp_signed(">=", b.load(end_slot, typ=I64), I64(0))
            return b.and_(is_left, b.icmp_signed("<", b.load(steps, typ=I64), most))

        with repeat(self.b, goes_on):
            end = b.load(end_slot, typ=I64)
            begin = self._split(end, begin_slot)
            rows = b.sub(end, begin)
            known = I64(0) if self._is_complex else I64(1)
            with b.if_else(b.icmp_signed("<=", rows, known)) as (done, goes):
                with done:
                    if not self._is_complex:
                        with b.if_then(b.icmp_signed("==", rows, I64(1))):
                            self._split_pair(begin, end)
                    b.store(b.sub(begin, I64(1)), end_slot)
                    b.store(I64(0), tries)
                with goes:
                    count = b.load(tries, typ=I64)
                    self._step(begin, end, count)
                    b.store(b.add(count, I64(1)), tries)
                    b.store(b.add(b.load(steps, typ=I64), I64(1)), steps)
        k.barrier()
        return b.load(end_slot, typ=I64)

    def _split(self, end: ir.Value, slot: ir.Value) -> ir.Value:
        """The first row of the block that ends with a row, which becomes independent of those before it."""
        b, k, t = self.b, self.kernel, self._t
        b.store(end, slot)

        def is_large() -> ir.Value:
            i = b.load(slot, typ=I64)
            before = intrinsic(b, "smax", b.sub(i, I64(1)), I64(0))
            beside = b.fadd(self.size(t.get(before, before)), self.size(t.get(i, i)))
            beside = b.select(b.fcmp_ordered("==", beside, self.constant(0)), self.constant(1), beside)
            least = b.fmul(self.constant(self._epsilon), beside)
            is_small = b.fcmp_ordered("<=", self.size(t.get(i, before)), least)
            return b.and_(b.icmp_signed(">", i, I64(0)), b.not_(is_small))

        with repeat(self.b, is_large):
            b.store(b.sub(b.load(slot, typ=I64), I64(1)), slot)
        begin = b.load(slot, typ=I64)
        k.barrier()
        with b.if_then(b.and_(self.is_first, b.icmp_signed(">", begin, I64(0)))):
            t.put(begin, b.sub(begin, I64(1)), self.zero)
        k.barrier()
        return begin

    def _split_pair(self, begin: ir.Value, end: ir.Value) -> None:
        """Makes a block of two rows triangular, if its eigenvalues are real."""
        b, k, t = self.b, self.kernel, self._t
        rows = [begin, end]
        elements = [self.real(t.get(i, j)[0]) for i in rows for j in rows]
        found = self.pair(*elements)
        k.barrier()
        with b.if_then(found.is_real):
            more = b.fadd(found.half, intrinsic(b, "copysign", found.root, found.half))
            r = self.reflection([self.number_of(more), self.number_of(elements[2])])
            self._turn(r, rows, begin, b.add(end, I64(1)), I1(1))
            with b.if_then(self.is_first):
                t.put(end, begin, self.zero)
            k.barrier()

    def _step(self, begin: ir.Value, end: ir.Value, tries: ir.Value) -> None:
        """Chases a bulge from the first row of a block to its last one."""
        b, k, t = self.b, self.kernel, self._t
        first = (self._one_shift if self._is_complex else self._two_shifts)(begin, end, tries)
        last = I64(self._n - 1)
        with strided(b, begin, end, 1) as at:
            is_begin = b.icmp_signed("==", at, begin)
            before = intrinsic(b, "smax", b.sub(at, I64(1)), I64(0))
            rows = [intrinsic(b, "smin", b.add(at, I64(r)), last) for r in range(self._width)]
            has_last = b.icmp_signed("<=", b.add(at, I64(self._width - 1)), end)
            x = [self.either(is_begin, f, t.get(i, before)) for f, i in zip(first, rows, strict=True)]
            x[-1] = self.either(has_last, x[-1], self.zero)
            r = self.reflection(x)
            k.barrier()
            with b.if_then(b.and_(self.is_first, b.not_(is_begin))):
                t.put(at, before, self.number_of(r.beta))
                t.put(rows[1], before, self.zero)
                if self._width == 3:
                    with b.if_then(has_last):
                        t.put(rows[2], before, self.zero)
            stop = b.add(intrinsic(b, "smin", b.add(at, I64(self._width)), end), I64(1))
            self._turn(r, rows, at, stop, has_last)

    def _turn(self, r: Reflection, rows: list[ir.Value], begin: ir.Value, stop: ir.Value, has_last: ir.Value) -> None:
        """Does a reflection to T, whose columns before `begin` and rows from `stop` on have zeros, and to Z."""
        self.turn_rows(self._t, r, rows, begin, self._n, has_last)
        self.kernel.barrier()
        self.turn_columns(self._t, r, rows, stop, has_last)
        self.turn_columns(self._z, r, rows, I64(self._n), has_last)
        self.kernel.barrier()

    def _is_exceptional(self, tries: ir.Value) -> ir.Value:
        b = self.b
        is_tenth = b.icmp_signed("==", b.urem(tries, I64(_EXCEPTIONAL)), I64(0))
        return b.and_(is_tenth, b.icmp_signed(">", tries, I64(0)))

    def _one_shift(self, begin: ir.Value, end: ir.Value, tries: ir.Value) -> list[Number]:
        """The first column of T - s, s the eigenvalue of the last two rows that is nearer to the last element."""
        b, t, before = self.b, self._t, self.b.sub(end, I64(1))
        over, right, under, last = (t.get(i, j) for i in (before, end) for j in (before, end))
        half = [b.fmul(part, self.vector(self.constant(0.5))) for part in self.difference(over, last)]
        beside = self.lanes.product(b, right, under)
        root = self._root(self.sum(self.lanes.product(b, half, half), beside))
        more, less = self.sum(half, root), self.difference(half, root)
        divisor = self.either(b.fcmp_ordered(">=", self.size(more), self.size(less)), more, less)
        is_nothing = b.fcmp_ordered("==", self.size(divisor), self.constant(0))
        safe = self.either(is_nothing, self.number_of(self.constant(1)), divisor)
        offset = self.either(is_nothing, self.zero, self.quotient(beside, safe))
        shift = self.difference(last, offset)
        far = b.fmul(self.constant(0.75), self.size(under))
        shift = self.either(self._is_exceptional(tries), self.sum(last, self.number_of(far)), shift)
        return [self.difference(t.get(begin, begin), shift), t.get(b.add(begin, I64(1)), begin)]

    def _root(self, x: Number) -> Number:
        """A square root of a complex number."""
        b, zero, half = self.b, self.constant(0), self.constant(0.5)
        real, imag = (self.real(part) for part in x)
        length = intrinsic(b, "sqrt", intrinsic(b, "fma", real, real, b.fmul(imag, imag)))
        long = intrinsic(b, "sqrt", b.fmul(half, b.fadd(length, intrinsic(b, "fabs", real))))
        is_nothing = b.fcmp_ordered("==", long, zero)
        short = b.fdiv(b.fmul(half, imag), b.select(is_nothing, self.constant(1), long))
        is_positive = b.fcmp_ordered(">=", real, zero)
        turned = intrinsic(b, "fabs", short), intrinsic(b, "copysign", long, imag)
        return self.number_of(*(b.select(is_positive, u, v) for u, v in zip((long, short), turned, strict=True)))

    def _two_shifts(self, begin: ir.Value, end: ir.Value, tries: ir.Value) -> list[Number]:
        """The first column of (T - s) (T - s'), s and s' the eigenvalues of the last two rows, divided by a number."""
        b = self.b

        def element(i: ir.Value, j: ir.Value) -> ir.Value:
            return self.real(self._t.get(i, j)[0])

        before = b.sub(end, I64(1))
        x, y, under = element(end, end), element(before, before), element(end, before)
        beside = b.fmul(under, element(before, end))
        far = b.fadd(*(intrinsic(b, "fabs", e) for e in (under, element(before, b.sub(before, I64(1))))))
        is_exceptional, other = self._is_exceptional(tries), b.fadd(b.fmul(self.constant(0.75), far), x)
        x, y = (b.select(is_exceptional, other, e) for e in (x, y))
        beside = b.select(is_exceptional, b.fmul(self.constant(-0.4375), b.fmul(far, far)), beside)
        second, third = (b.add(begin, I64(k)) for k in (1, 2))
        top, below = element(begin, begin), element(second, begin)
        p, q = b.fsub(x, top), b.fsub(y, top)
        one = b.fadd(b.fdiv(b.fsub(b.fmul(p, q), beside), below), element(begin, second))
        two = b.fsub(b.fsub(b.fsub(element(second, second), top), p), q)
        return [self.number_of(e) for e in (one, two, element(third, second))]

    # -- out
    def _eigenvalues(self, back: ir.Value) -> None:
        b = self.b
        with self.each(self._n) as i:
            at = b.add(b.mul(self.kernel.block, I64(self._n)), i)
            if self._is_complex:
                value = [b.fmul(part, self.vector(back)) for part in self._t.get(i, i)]
                self.lanes.store(b, self._values[0], at, value)
            else:
                for pointer, part in zip(self._values, self._eigenvalue(i), strict=True):
                    self.lanes.store(b, pointer, at, self.number_of(b.fmul(part, back)))

    def _eigenvalue(self, i: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Of a real matrix, in a block of one row or of two: the real part, and the imaginary one."""
        b, t = self.b, self._t
        following = intrinsic(b, "smin", b.add(i, I64(1)), I64(self._n - 1))
        before = intrinsic(b, "smax", b.sub(i, I64(1)), I64(0))
        is_upper = b.and_(b.icmp_signed("<", i, following), self._is_coupled(following, i))
        is_lower = b.and_(b.icmp_signed("<", before, i), self._is_coupled(i, before))
        begin, end = b.select(is_lower, before, i), b.select(is_upper, following, i)
        over, beside, under, last = (self.real(t.get(p, q)[0]) for p in (begin, end) for q in (begin, end))
        found = self.pair(over, beside, under, last)
        is_one = b.icmp_signed("==", begin, end)
        imag = b.select(is_upper, found.root, b.fneg(found.root))
        real = b.select(is_one, last, b.fadd(last, found.half))
        return real, b.select(is_one, self.constant(0), imag)

    def _is_coupled(self, i: ir.Value, j: ir.Value) -> ir.Value:
        return self.b.fcmp_unordered("!=", self.real(self._t.get(i, j)[0]), self.constant(0))
