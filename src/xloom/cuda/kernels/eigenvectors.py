"""Eigenvalues and eigenvectors of matrices that are not Hermitian, as LAPACK's geev has them: of Schur's form.

Eigenvectors of a triangular matrix come by substitution, a thread for each, and those of the matrix are Z times them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Lanes, Number
from xloom.cuda.kernel import THREADS, DeviceKernel, strided
from xloom.cuda.kernels.matrix_kernel import Matrix, Place, Variable
from xloom.cuda.kernels.schur import SchurForm
from xloom.cuda.kernels.similarity import SimilarityKernel
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import c64, c128
from xloom.hlo.shape import Shape
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.types import I1, I64

_GREAT = {32: 2.0**40, 64: 2.0**300}
"""By the bits of a part: more than this no element of a vector becomes before it has its length; squares of it, and
sums of products with it, are finite."""


def eigensystems(
    lowering: ThunkLowering,
    shape: Shape,
    values: Sequence[BufferAllocation],
    left: BufferAllocation | None,
    right: BufferAllocation | None,
    info: BufferAllocation,
) -> None:
    """Of the thunk's operand: eigenvalues (real and imaginary parts of real matrices), and the vectors that are wanted;
    and s32, how many eigenvalues are not known."""
    if not shape.size:
        return
    *outer, n, _ = shape.dims
    batch, vectors = math.prod(outer), c128 if shape.dtype.real.bits == 64 else c64
    t, z = (lowering.scratch(batch * n * n * shape.dtype.bytes) for _ in range(2))
    row = lowering.scratch(batch * n * shape.dtype.bytes)
    form = SchurForm(lowering, shape, [lowering.operand(0), t, z, row, *values, info])
    lowering.launch(form.made(batch), batch, form.arguments)
    wanted = [each for each in (left, right) if each is not None]
    if not wanted:
        return
    size = batch * n * n * vectors.bytes
    triangle = [lowering.scratch(size) for _ in range(2)] if shape.dtype is not vectors else [t, z]
    work = _Vectors(lowering, shape, [t, z, *triangle, lowering.scratch(size), *wanted])
    lowering.launch(work.made(batch, is_left=[each is left for each in wanted]), batch, work.arguments)


class _Vectors(SimilarityKernel):
    """Its arguments are T and Z, the same of complex numbers, memory for vectors of T, and those that are wanted."""

    def __init__(self, lowering: ThunkLowering, shape: Shape, arrays: Sequence[BufferAllocation]):
        super().__init__(lowering, c128 if shape.dtype.real.bits == 64 else c64, arrays, THREADS)
        self.kernel.resident_blocks = 1  # as of spectra
        n = self._n = shape.dims[-1]
        self._is_real = not shape.dtype.is_complex
        finfo = np.finfo(shape.dtype.real.numpy)
        self._epsilon, self._least = float(finfo.eps), float(finfo.tiny / finfo.eps)
        self._great = self.constant(_GREAT[shape.dtype.real.bits])
        place = Place(n, 1, n * n)
        given = Lanes(shape.dtype, 1)
        self._given = [Matrix(self.b, p, given, place, self.kernel.block) for p in self.pointers[:2]]
        self._t, self._z, self._x, *self._results = (
            Matrix(self.b, p, self.lanes, place, self.kernel.block) for p in self.pointers[2:]
        )

    def made(self, batch: int, *, is_left: Sequence[bool]) -> DeviceKernel:
        """The kernel."""
        if self._is_real:
            self._copy()
            if self._n > 1:
                with strided(self.b, I64(0), I64(self._n - 1), 1) as i:
                    self._split_pair(i)
        for result, left in zip(self._results, is_left, strict=True):
            self._substitute(is_left=left)
            self.kernel.barrier()
            self._multiply(result, is_left=left)
            self.kernel.barrier()
            self._normalise(result)
        kinds = " and ".join("left" if left else "right" for left in is_left)
        return self.finished(f"{kinds} eigenvectors of {batch} matrices of {self._n} rows, a thread for each")

    # -- a triangle of complex numbers
    def _copy(self) -> None:
        b, n = self.b, self._n
        with self.each(n * n) as item:
            i, j = b.udiv(item, I64(n)), b.urem(item, I64(n))
            for given, own in zip(self._given, (self._t, self._z), strict=True):
                own.put(i, j, [*given.get(i, j), *self.zero[1:]])
        self.kernel.barrier()

    def _split_pair(self, i: ir.Value) -> None:
        """Makes the block of two rows that begins with a row triangular, if there is one."""
        b, k, t = self.b, self.kernel, self._t
        rows = [i, b.add(i, I64(1))]
        over, beside, under, last = (self.real(self._given[0].get(p, q)[0]) for p in rows for q in rows)
        with b.if_then(b.fcmp_unordered("!=", under, self.constant(0))):
            found = self.pair(over, beside, under, last)
            r = self.reflection([self.number_of(found.half, found.root), self.number_of(under)])
            self.turn_rows(t, r, rows, i, self._n, I1(1))
            k.barrier()
            self.turn_columns(t, r, rows, b.add(i, I64(2)), I1(1))
            self.turn_columns(self._z, r, rows, I64(self._n), I1(1))
            k.barrier()
            with b.if_then(self.is_first):
                real = b.fadd(last, found.half)
                t.put(rows[0], rows[0], self.number_of(real, found.root))
                t.put(rows[1], rows[1], self.number_of(real, b.fneg(found.root)))
                t.put(rows[1], rows[0], self.zero)
            k.barrier()

    # -- vectors
    def _substitute(self, *, is_left: bool) -> None:
        """To column k of x the vector of eigenvalue k: with 1 in its place, and zeros after it, or before a left one,
        which is conjugated."""
        b, t, x, n = self.b, self._t, self._x, self._n
        total = Variable(b, self.lanes)
        with self.each(n) as k:
            value = t.get(k, k)
            least = b.fmul(self.constant(self._epsilon), self.size(value))
            least = intrinsic(b, "maximum", least, self.constant(self._least))
            x.put(k, k, self.number_of(self.constant(1)))
            count = b.sub(I64(n - 1), k) if is_left else k
            with strided(b, I64(1), b.add(count, I64(1)), 1) as step:
                i = b.add(k, step) if is_left else b.sub(k, step)
                begin, end = (k, i) if is_left else (b.add(i, I64(1)), b.add(k, I64(1)))
                total.set(self.zero)
                with strided(b, begin, end, 1) as j:
                    element = t.get(j, i) if is_left else t.get(i, j)
                    total.set(self.lanes.minus_product(b, total.get(), element, x.get(j, k)))
                divisor = self.difference(t.get(i, i), value)
                is_small = b.fcmp_ordered("<", self.size(divisor), least)
                divisor = self.either(is_small, self.number_of(least), divisor)
                most, size = b.fmul(self.size(divisor), self._great), self.size(total.get())
                with b.if_then(b.fcmp_ordered(">", size, most)):
                    less = self.vector(b.fdiv(most, size))
                    total.set([b.fmul(part, less) for part in total.get()])
                    with strided(b, begin, end, 1) as j:
                        x.put(j, k, [b.fmul(part, less) for part in x.get(j, k)])
                x.put(i, k, self.quotient(total.get(), divisor))

    def _multiply(self, result: Matrix, *, is_left: bool) -> None:
        """Z times the vectors."""
        b, z, x, n = self.b, self._z, self._x, self._n
        total = Variable(b, self.lanes)
        with self.each(n * n) as item:
            i, k = b.udiv(item, I64(n)), b.urem(item, I64(n))
            total.set(self.zero)
            begin, end = (k, I64(n)) if is_left else (I64(0), b.add(k, I64(1)))
            with strided(b, begin, end, 1) as j:
                value = x.get(j, k)
                minus = [b.fneg(part) for part in (self.conjugate(value) if is_left else value)]
                total.set(self.lanes.minus_product(b, total.get(), z.get(i, j), minus))
            result.put(i, k, total.get())

    def _normalise(self, result: Matrix) -> None:
        """Makes each vector's length one, and its greatest element real; those of real eigenvalues are real."""
        b = self.b
        with self.each(self._n) as k:
            if not self._is_real:
                self._normalise_one(result, k, I1(0))
                return
            imag = self.real(self._t.get(k, k)[1])
            is_real = b.fcmp_ordered("==", imag, self.constant(0))
            # of a pair, the first does both vectors
            with b.if_then(b.fcmp_ordered(">=", imag, self.constant(0))):
                self._normalise_one(result, k, is_real)
                following = b.add(k, I64(1))
                with b.if_then(b.not_(is_real)), strided(b, I64(0), I64(self._n), 1) as i:
                    result.put(i, following, self.conjugate(result.get(i, k)))

    def _normalise_one(self, result: Matrix, k: ir.Value, is_real: ir.Value) -> None:
        b, n, zero = self.b, self._n, self.constant(0)
        square, most, place = allocate(b, self.kind), allocate(b, self.kind), allocate(b, I64)
        b.store(zero, square)
        b.store(self.constant(-1), most)
        b.store(I64(0), place)
        with strided(b, I64(0), I64(n), 1) as i:
            size = self._square(result.get(i, k))
            b.store(b.fadd(b.load(square, typ=self.kind), size), square)
            is_more = b.fcmp_ordered(">", size, b.load(most, typ=self.kind))
            b.store(b.select(is_more, size, b.load(most, typ=self.kind)), most)
            b.store(b.select(is_more, i, b.load(place, typ=I64)), place)
        over = b.fdiv(self.constant(1), intrinsic(b, "sqrt", b.load(square, typ=self.kind)))
        size, at = intrinsic(b, "sqrt", b.load(most, typ=self.kind)), b.load(place, typ=I64)
        greatest = self.conjugate(result.get(at, k))
        turn = [b.fmul(b.fdiv(part, self.vector(size)), self.vector(over)) for part in greatest]
        factor = self.either(is_real, self.number_of(over), turn)
        with strided(b, I64(0), I64(n), 1) as i:
            real, part = self.lanes.product(b, result.get(i, k), factor)
            becomes_real = b.or_(is_real, b.icmp_signed("==", i, at))
            result.put(i, k, [real, b.select(becomes_real, self.zero[0], part)])

    def _square(self, x: Number) -> ir.Value:
        first, second = (self.real(part) for part in x)
        return intrinsic(self.b, "fma", first, first, self.b.fmul(second, second))
