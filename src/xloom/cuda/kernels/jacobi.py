"""Singular values and eigenvalues by one-sided Jacobi rotations (Hestenes): a block of threads for each matrix.

Pairs of columns are made orthogonal until all are; their lengths are the singular values then, and what is left of them
the vectors of one side. Warps take pairs that have no column in common, as in a tournament. A Hermitian matrix is made
positive definite first by adding a multiple of the identity: its singular vectors are its eigenvectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Lanes, Number
from xloom.cuda.kernel import WARP, DeviceKernel, strided
from xloom.cuda.kernels.block_all_reduce import BlockAllReduce
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place, Variable
from xloom.cuda.lowering import ThunkLowering
from xloom.cuda.warp_reduction import sums_in_warp
from xloom.hlo.dtype import DType, s32
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.power_of_two import scaling
from xloom.llvm.types import I1, I32, I64

SWEEPS = 30
"""At most; some eight are enough for most matrices."""
_SHIFT = 1.5
"""Of a Hermitian matrix, by its Frobenius norm: eigenvalues between 0.5 and 2.5 of that."""
_MOST_WARPS = 16
"""Of a block: more would have too few registers."""


@dataclass(frozen=True)
class Spectrum:
    """What is asked of `batch` matrices, of which the taller side is `height`: all vectors of that side, or `width`."""

    dtype: DType
    batch: int
    height: int
    width: int
    source: Place
    """Where the matrix, or its adjoint, has column j of `width`."""
    vectors: Place | None
    """Where the vectors of the taller side go, as columns; None where they are not wanted."""
    columns: int = 0
    """How many."""
    others: Place | None = None
    """Where those of the other side go."""
    is_hermitian: bool = False


def spectra(lowering: ThunkLowering, spectrum: Spectrum, arrays: list[BufferAllocation]) -> None:
    """Adds the launch. `arrays`: the matrices, their values (ascending where they are eigenvalues), the vectors, the
    others, and s32 that are 0, or 1 of a matrix with numbers that are not finite or too many sweeps."""
    s = spectrum
    scratch = [
        lowering.scratch(s.batch * count * s.dtype.bytes)
        for count in (s.height * s.width, s.width * s.width if s.others else 1, s.width, s.height)
    ]
    work = _Jacobi(lowering, s, [*arrays, *scratch])
    lowering.launch(work.made(), s.batch, work.arguments)


class _Jacobi(MatrixKernel):
    """Emits the kernel."""

    def __init__(self, lowering: ThunkLowering, spectrum: Spectrum, arrays: list[BufferAllocation]):
        players = spectrum.width + spectrum.width % 2
        warps = max(1, min(_MOST_WARPS, players // 2))
        super().__init__(lowering, spectrum.dtype, arrays, warps * WARP)
        self._s, self._players, self._warps = spectrum, players, warps
        self.kernel.resident_blocks = 1  # ptxas by itself spills registers for the sake of more blocks
        self._kind = self.lanes.kind.element
        self._reals = Lanes(spectrum.dtype.real, 1)
        self._epsilon = float(np.finfo(spectrum.dtype.real.numpy).eps)
        self._sizes, self._squares = (BlockAllReduce(self.kernel, self._kind) for _ in range(2))
        self._indexed = BlockAllReduce(self.kernel, self._kind, I64)
        source, self._values, vectors, others, self._info, g, y, norms, weights = self.pointers
        h, w = spectrum.height, spectrum.width
        self._source = self._matrix(source, spectrum.source)
        self._g, self._y = self._matrix(g, Place(1, h, h * w)), self._matrix(y, Place(1, w, w * w))
        self._norms, self._weights = self._matrix(norms, Place(0, 1, w)), self._matrix(weights, Place(0, 1, h))
        self._vectors = self._matrix(vectors, spectrum.vectors or Place(0, 0, 0))
        self._others = self._matrix(others, spectrum.others or Place(0, 0, 0))

    def _matrix(self, pointer: ir.Value, place: Place) -> Matrix:
        return Matrix(self.b, pointer, self.lanes, place, self.kernel.block)

    def made(self) -> DeviceKernel:
        """The kernel."""
        b, k, s = self.b, self.kernel, self._s
        scale, back, norm = self._scaling()
        one = self._constant(1)
        shift = self._constant(0)
        if s.is_hermitian:
            shift = b.select(b.fcmp_ordered("==", norm, shift), one, b.fmul(norm, self._constant(_SHIFT)))
        with self.each(s.height * s.width) as item:
            i, j = b.urem(item, I64(s.height)), b.udiv(item, I64(s.height))
            value = [b.fmul(part, self.vector(scale)) for part in self._source.get(*self._read_triangle(i, j))]
            if s.is_hermitian:
                value = self._hermitian(i, j, value, shift)
            self._g.put(i, j, value)
        if s.others:
            with self.each(s.width * s.width) as item:
                i, j = b.urem(item, I64(s.width)), b.udiv(item, I64(s.width))
                is_one = b.icmp_signed("==", i, j)
                self._y.put(i, j, [self.vector(b.select(is_one, one, self._constant(0))), *self.zero[1:]])
        k.barrier()
        has_converged = self._sweeps(b.fmul(norm, self._constant(self._epsilon)))
        self._lengths()
        is_finite = b.fcmp_ordered("==", b.fsub(norm, norm), self._constant(0))
        info = b.select(b.and_(has_converged, is_finite), I32(0), I32(1))
        with b.if_then(b.icmp_signed("==", k.thread, I64(0))):
            element_access.store(b, self._info, s32, k.block, info)
        rank = self._results(back, shift, norm)
        if s.vectors is not None and not s.is_hermitian:  # whose columns are far from zero
            k.barrier()
            self._complete(rank)
        kind = "eigenvalues" if s.is_hermitian else "singular values"
        what = f"{kind} of {s.batch} matrices of {s.height} x {s.width}"
        return self.finished(f"{what}, {self._warps} pairs of columns at a time")

    # -- in
    def _scaling(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """What makes the greatest number about one, so that no square overflows, and its inverse; the matrix's
        Frobenius norm then."""
        b, s = self.b, self._s
        kept = allocate(b, self._kind)
        b.store(self._constant(0), kept)
        with self.each(s.height * s.width) as item:
            i, j = b.urem(item, I64(s.height)), b.udiv(item, I64(s.height))
            for part in self._source.get(*self._read_triangle(i, j)):
                size = intrinsic(b, "fabs", self.real(part))
                b.store(intrinsic(b, "maximum", b.load(kept, typ=self._kind), size), kept)
        scale, back = scaling(b, self._sizes.greatest(b.load(kept, typ=self._kind)))
        b.store(self._constant(0), kept)
        with self.each(s.height * s.width) as item:
            i, j = b.urem(item, I64(s.height)), b.udiv(item, I64(s.height))
            for part in self._source.get(*self._read_triangle(i, j)):
                x = b.fmul(self.real(part), scale)
                b.store(intrinsic(b, "fma", x, x, b.load(kept, typ=self._kind)), kept)
        return scale, back, intrinsic(b, "sqrt", self._squares.sum(b.load(kept, typ=self._kind)))

    def _read_triangle(self, i: ir.Value, j: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Of a Hermitian matrix the lower triangle is read, as `source` places it."""
        if not self._s.is_hermitian:
            return i, j
        is_lower = self.b.icmp_signed(">=", i, j)
        return self.b.select(is_lower, i, j), self.b.select(is_lower, j, i)

    def _hermitian(self, i: ir.Value, j: ir.Value, value: Number, shift: ir.Value) -> Number:
        """An element of the whole matrix, of one that was read from its triangle."""
        b = self.b
        is_diagonal = self.b.icmp_signed("==", i, j)
        real = b.fadd(value[0], self.vector(b.select(is_diagonal, shift, self._constant(0))))
        if len(value) == 1:
            return [real]
        imag = b.select(b.icmp_signed("<", i, j), b.fneg(value[1]), value[1])
        return [real, b.select(is_diagonal, self.zero[0], imag)]

    # -- rotations
    def _sweeps(self, least: ir.Value) -> ir.Value:
        """Whether no pair was rotated at last. Columns shorter than `least` are taken for zeros."""
        b, k = self.b, self.kernel
        flags = k.shared(4 * self._warps)

        def flag(warp: ir.Value) -> ir.Value:
            return b.gep(flags, [warp], inbounds=True, source_etype=I32)

        is_first = b.icmp_signed("==", k.lane, I64(0))
        goes_on, count = allocate(b, I1), allocate(b, I64)
        b.store(I1(1), goes_on)
        b.store(I64(0), count)
        head, body, done = (b.append_basic_block(f"sweep.{part}") for part in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        is_allowed = b.icmp_signed("<", b.load(count, typ=I64), I64(SWEEPS))
        b.cbranch(b.and_(b.load(goes_on, typ=I1), is_allowed), body, done)
        b.position_at_end(body)
        with b.if_then(is_first):
            b.store(I32(0), flag(k.warp))
        with strided(b, I64(0), I64(self._players - 1), 1) as turn:
            with strided(b, k.warp, I64(self._players // 2), self._warps) as number:
                p, q = self._pair(turn, number)
                with b.if_then(b.icmp_signed("<", q, I64(self._s.width))):
                    self._rotate(p, q, least, lambda: b.store(I32(1), flag(k.warp)))
            k.barrier()
        rotated = I32(0)
        for warp in range(self._warps):
            rotated = b.or_(rotated, b.load(flag(I64(warp)), typ=I32))
        k.barrier()
        b.store(b.icmp_signed("!=", rotated, I32(0)), goes_on)
        b.store(b.add(b.load(count, typ=I64), I64(1)), count)
        b.branch(head)
        b.position_at_end(done)
        return b.not_(b.load(goes_on, typ=I1))

    def _pair(self, turn: ir.Value, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """A pair of columns, the lesser first: in each turn all are in one, and in all turns each meets each."""
        b, others = self.b, I64(self._players - 1)
        one = b.urem(b.add(turn, number), others)
        other = b.urem(b.sub(b.add(turn, others), number), others)
        other = b.select(b.icmp_signed("==", number, I64(0)), others, other)
        return intrinsic(b, "smin", one, other), intrinsic(b, "smax", one, other)

    def _rotate(self, p: ir.Value, q: ir.Value, least: ir.Value, tell: Callable[[], object]) -> None:
        """Makes two columns orthogonal, all of a warp together; tells where that took a rotation."""
        b, k, s = self.b, self.kernel, self._s
        slots = [allocate(b, self._kind) for _ in range(2 + self.lanes.parts)]
        for slot in slots:
            b.store(self._constant(0), slot)
        with strided(b, k.lane, I64(s.height), WARP) as i:
            x, y = ([self.real(part) for part in self._g.get(i, c)] for c in (p, q))
            products = [(0, x, x), (1, y, y), (2, x, y)]
            for slot, u, v in products:
                for f, g in zip(u, v, strict=True):
                    b.store(intrinsic(b, "fma", f, g, b.load(slots[slot], typ=self._kind)), slots[slot])
            if len(x) == 2:  # conj(x) y
                imag = b.fsub(b.fmul(x[0], y[1]), b.fmul(x[1], y[0]))
                b.store(b.fadd(b.load(slots[3], typ=self._kind), imag), slots[3])
        sums = sums_in_warp(k, [b.load(slot, typ=self._kind) for slot in slots])
        alpha, beta, *gamma = (k.broadcast(each) for each in sums)
        size = self._length(gamma)
        tolerance = self._constant(self._epsilon * math.sqrt(s.height))
        allowed = b.fmul(tolerance, b.fmul(intrinsic(b, "sqrt", alpha), intrinsic(b, "sqrt", beta)))
        lesser = intrinsic(b, "sqrt", intrinsic(b, "minimum", alpha, beta))
        needed = b.and_(b.fcmp_ordered(">", size, allowed), b.fcmp_ordered(">", lesser, least))
        with b.if_then(needed):
            with b.if_then(b.icmp_signed("==", k.lane, I64(0))):
                tell()
            one, zeta = self._constant(1), b.fdiv(b.fsub(beta, alpha), b.fmul(self._constant(2), size))
            long = b.fadd(intrinsic(b, "fabs", zeta), intrinsic(b, "sqrt", intrinsic(b, "fma", zeta, zeta, one)))
            tangent = intrinsic(b, "copysign", b.fdiv(one, long), zeta)
            cosine = b.fdiv(one, intrinsic(b, "sqrt", intrinsic(b, "fma", tangent, tangent, one)))
            sine = b.fmul(cosine, tangent)
            phase = [self.vector(b.fdiv(part, size)) for part in gamma]
            phase = [phase[0], *(b.fneg(part) for part in phase[1:])]
            turn = self.vector(cosine), self.vector(sine), phase
            self._turn(self._g, s.height, p, q, turn)
            if s.others:
                self._turn(self._y, s.width, p, q, turn)

    def _turn(
        self, matrix: Matrix, rows: int, p: ir.Value, q: ir.Value, turn: tuple[ir.Value, ir.Value, Number]
    ) -> None:
        b, (cosine, sine, phase) = self.b, turn
        with strided(b, self.kernel.lane, I64(rows), WARP) as i:
            x, y = matrix.get(i, p), self.lanes.product(b, matrix.get(i, q), phase)
            matrix.put(i, p, [b.fsub(b.fmul(cosine, u), b.fmul(sine, v)) for u, v in zip(x, y, strict=True)])
            matrix.put(i, q, [b.fadd(b.fmul(sine, u), b.fmul(cosine, v)) for u, v in zip(x, y, strict=True)])

    # -- out
    def _lengths(self) -> None:
        """Of all columns, a warp for each, to `norms`."""
        b, k, s = self.b, self.kernel, self._s
        total = allocate(b, self._kind)
        with strided(b, k.warp, I64(s.width), self._warps) as j:
            b.store(self._constant(0), total)
            with strided(b, k.lane, I64(s.height), WARP) as i:
                for part in (self.real(part) for part in self._g.get(i, j)):
                    b.store(intrinsic(b, "fma", part, part, b.load(total, typ=self._kind)), total)
            (found,) = sums_in_warp(k, [b.load(total, typ=self._kind)])
            with b.if_then(b.icmp_signed("==", k.lane, I64(0))):
                self._norms.put(I64(0), j, [self.vector(intrinsic(b, "sqrt", found)), *self.zero[1:]])
        k.barrier()

    def _norm(self, j: ir.Value) -> ir.Value:
        return self.real(self._norms.get(I64(0), j)[0])

    def _or_less(self, x: ir.Value) -> ir.Value:
        """A length, or -1 for one that is NaN: so each has its own place in their order."""
        return self.b.select(self.b.fcmp_unordered("uno", x, x), self._constant(-1), x)

    def _results(self, back: ir.Value, shift: ir.Value, norm: ir.Value) -> ir.Value:
        """Writes values and vectors in their order, by warps. How many columns are not taken for zeros."""
        b, k, s = self.b, self.kernel, self._s
        least = b.fmul(norm, self._constant(self._epsilon))
        before, rank = allocate(b, I64), allocate(b, I64)
        b.store(I64(0), rank)
        with strided(b, I64(0), I64(s.width), 1) as j:
            is_there = b.fcmp_ordered(">", self._norm(j), least)
            b.store(b.add(b.load(rank, typ=I64), b.zext(is_there, I64)), rank)
        with strided(b, k.warp, I64(s.width), self._warps) as j:
            mine = self._norm(j)
            known = self._or_less(mine)
            b.store(I64(0), before)
            with strided(b, I64(0), I64(s.width), 1) as other:
                theirs = self._or_less(self._norm(other))
                is_equal = b.and_(b.fcmp_ordered("==", theirs, known), b.icmp_signed("<", other, j))
                is_before = b.or_(b.fcmp_ordered(">", theirs, known), is_equal)
                b.store(b.add(b.load(before, typ=I64), b.zext(is_before, I64)), before)
            place = b.load(before, typ=I64)
            if s.is_hermitian:
                place = b.sub(I64(s.width - 1), place)
            with b.if_then(b.icmp_signed("==", k.lane, I64(0))):
                value = b.fmul(b.fsub(mine, shift), back)
                at = b.add(b.mul(k.block, I64(s.width)), place)
                self._reals.store(b, self._values, at, [self.vector(value)])
            if s.vectors is not None:
                inverse = self.vector(b.fdiv(self._constant(1), mine))
                with strided(b, k.lane, I64(s.height), WARP) as i:
                    self._vectors.put(i, place, [b.fmul(part, inverse) for part in self._g.get(i, j)])
            if s.others:
                with strided(b, k.lane, I64(s.width), WARP) as i:
                    self._others.put(i, place, self._y.get(i, j))
        return b.load(rank, typ=I64)

    def _complete(self, rank: ir.Value) -> None:
        """Vectors orthogonal to those before them, for the columns that are zeros, or more than there were."""
        b, k, x = self.b, self.kernel, self._vectors
        size, place = allocate(b, self._kind), allocate(b, I64)
        height = I64(self._s.height)
        with strided(b, rank, I64(self._s.columns), 1) as j:
            # the unit vector of which most is left
            b.store(self._constant(-1), size)
            b.store(I64(0), place)
            with strided(b, k.thread, height, k.threads) as i:
                left = allocate(b, self._kind)
                b.store(self._constant(1), left)
                with strided(b, I64(0), j, 1) as c:
                    for part in (self.real(part) for part in x.get(i, c)):
                        b.store(intrinsic(b, "fma", b.fneg(part), part, b.load(left, typ=self._kind)), left)
                here, known = b.load(left, typ=self._kind), b.load(size, typ=self._kind)
                is_more = b.fcmp_ordered(">", here, known)
                b.store(b.select(is_more, here, known), size)
                b.store(b.select(is_more, i, b.load(place, typ=I64)), place)
            row = self._indexed.argmax(b.load(size, typ=self._kind), b.load(place, typ=I64))
            with strided(b, k.thread, height, k.threads) as i:
                is_row = b.icmp_signed("==", i, row)
                unit = [self.vector(b.select(is_row, self._constant(1), self._constant(0))), *self.zero[1:]]
                self._less(i, j, unit, lambda c: self._conjugate(x.get(row, c)))
            k.barrier()
            # once more, for what rounding has left
            with strided(b, k.warp, j, self._warps) as c:
                self._weigh(c, j)
            k.barrier()
            with strided(b, k.thread, height, k.threads) as i:
                self._less(i, j, x.get(i, j), lambda c: self._weights.get(I64(0), c))
            self._normalise(j)

    def _less(self, i: ir.Value, j: ir.Value, value: Number, weight: Callable[[ir.Value], Number]) -> None:
        """Element i of column j: `value` less the columns before it, each times its weight."""
        b, x = self.b, self._vectors
        total = Variable(b, self.lanes)
        total.set(value)
        with strided(b, I64(0), j, 1) as c:
            total.set(self.lanes.minus_product(b, total.get(), x.get(i, c), weight(c)))
        x.put(i, j, total.get())

    def _weigh(self, c: ir.Value, j: ir.Value) -> None:
        """How much of column c is in column j, by a warp."""
        b, k, x = self.b, self.kernel, self._vectors
        total = Variable(b, self.lanes)
        total.set(self.zero)
        with strided(b, k.lane, I64(self._s.height), WARP) as i:
            minus = [b.fneg(part) for part in self._conjugate(x.get(i, c))]
            total.set(self.lanes.minus_product(b, total.get(), minus, x.get(i, j)))
        sums = sums_in_warp(k, [self.real(part) for part in total.get()])
        with b.if_then(b.icmp_signed("==", k.lane, I64(0))):
            self._weights.put(I64(0), c, [self.vector(each) for each in sums])

    def _normalise(self, j: ir.Value) -> None:
        b, k, x = self.b, self.kernel, self._vectors
        total = allocate(b, self._kind)
        b.store(self._constant(0), total)
        with strided(b, k.thread, I64(self._s.height), k.threads) as i:
            for part in (self.real(part) for part in x.get(i, j)):
                b.store(intrinsic(b, "fma", part, part, b.load(total, typ=self._kind)), total)
        length = intrinsic(b, "sqrt", self._squares.sum(b.load(total, typ=self._kind)))
        inverse = self.vector(b.fdiv(self._constant(1), length))
        with strided(b, k.thread, I64(self._s.height), k.threads) as i:
            x.put(i, j, [b.fmul(part, inverse) for part in x.get(i, j)])

    def _length(self, x: list[ir.Value]) -> ir.Value:
        if len(x) == 1:
            return intrinsic(self.b, "fabs", x[0])
        return intrinsic(self.b, "sqrt", self.b.fadd(*(self.b.fmul(part, part) for part in x)))

    def _conjugate(self, x: Number) -> Number:
        return [x[0], *(self.b.fneg(part) for part in x[1:])]

    def _constant(self, value: float) -> ir.Constant:
        return ir.Constant(self._kind, float(value))
