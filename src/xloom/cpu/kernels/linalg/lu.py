"""LU factors with row exchanges, each matrix by one thread, a few columns (a panel) after the others.

A panel lies in scratch memory with its columns side by side, so that a pivot is searched, and the columns behind it are
reduced, in vectors of rows. What is right of it lies row by row: the rows of the pivots are solved for, and their
products with the panel are subtracted from those below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar, selected
from xloom.cpu.kernels.linalg.matrix_scratch import each_matrix
from xloom.cpu.kernels.linalg.padded_rows import PaddedRows
from xloom.cpu.kernels.linalg.tile_transpose import SquareTile
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access, types
from xloom.llvm.intrinsics import intrinsic, overloaded
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.register_transpose import transposed
from xloom.llvm.types import I32, I64, element_pointer
from xloom.llvm.vectors import constant_vector, splat, uniform


def lu(kernel: Kernel, instruction: Instruction) -> None:
    """Both factors in one matrix, the rows exchanged (s32, from 1), and the first zero pivot (s32, from 1; else 0)."""
    kernel.pipeline = PassPipeline.VECTORS
    if kernel.operands[0].size:
        work = _Work(kernel)
        chosen(f"panels of {work.panel} columns, each matrix by one thread", "there is no other")
        work.matrices()


def _at_least(size: int) -> int:
    """The power of two that is not below, of 2 and above."""
    return 1 << (max(size, 2) - 1).bit_length()


def _padded(size: int, lanes: int) -> int:
    """Elements of whole vectors, and of one more where there are several."""
    return -(-size // lanes) * lanes + (lanes if size > lanes else 0)


class _Work:
    """The kernel while it is made. A matrix in scratch memory has zeros round it, so that all its vectors are whole."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        shape = kernel.operands[0]
        registers = kernel.target.registers
        self.dtype, (self.m, self.n) = shape.dtype, shape.dims[-2:]
        self.batch = math.prod(shape.dims[:-2])
        self.pivots = min(self.m, self.n)
        parts = 2 if self.dtype.is_complex else 1
        most = registers.nbytes // (self.dtype.real.bits // 8)
        self.rows = Lanes(self.dtype, min(most, _at_least(self.m)))
        self.columns = Lanes(self.dtype, min(most, _at_least(self.n)))
        self.panel = min((8 if registers.count == 32 else 4) // parts, most, _at_least(self.pivots))
        self.vectors = 2 if parts == 1 and self.n > self.columns.count else 1
        self.tile = SquareTile(self.dtype, self.panel)
        # rows of a power of two apart would share few places of the cache
        self.stride = _padded(self.n, self.columns.count)
        self.padded = PaddedRows(self.columns, self.n, self.stride)
        self.height = self.m + self.rows.count
        self.depth = _padded(self.m, self.rows.count)

    def matrices(self) -> None:
        """Adds one phase, whose items are matrices."""
        own, panel = self.height * self.stride * self.dtype.bytes, self.panel * self.depth * self.dtype.bytes
        flops = self.m * self.n * self.pivots
        with each_matrix(self.kernel, self.batch, flops, [own, panel]) as (p, number, (matrix, panel_start)):
            b = p.b
            first = b.mul(number, I64(self.m * self.n))
            self.padded.read(b, self._at(b, p.operand(0), first), matrix, self.m)
            self.padded.clear(b, matrix, self.m * self.stride, self.height * self.stride)
            pivots = _integer_at(b, p.output(1), b.mul(number, I64(self.pivots)))
            info = _integer_at(b, p.output(2), number)
            _Factorisation(self, b, matrix, panel_start, pivots).emit(info)
            self.padded.write(b, matrix, self._at(b, p.output(0), first), self.m)

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        return element_pointer(b, pointer, self.dtype, index)


def _integer_at(b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
    """Of an array of s32."""
    return b.gep(pointer, [index], inbounds=True, source_etype=I32)


def _size(b: ir.IRBuilder, number: Number) -> ir.Value:
    """What LAPACK compares pivots by: the sum of the parts' absolute values."""
    sizes = [intrinsic(b, "fabs", part) for part in number]
    return sizes[0] if len(sizes) == 1 else b.fadd(*sizes)


class _Factorisation:
    """Factors one matrix where it lies in scratch memory."""

    def __init__(self, work: _Work, b: ir.IRBuilder, matrix: ir.Value, panel: ir.Value, pivots: ir.Value):
        self.work, self.b, self.matrix, self.panel, self.pivots = work, b, matrix, panel, pivots
        real = work.rows.kind
        self.best, self.place = allocate(b, real), allocate(b, ir.VectorType(I32, work.rows.count))
        self.info = allocate(b, I32)

    def emit(self, info: ir.Value) -> None:
        """Panel by panel."""
        b, work = self.b, self.work
        b.store(I32(0), self.info)
        with loop(b, 0, work.pivots, work.panel, "panel") as start:
            left = b.sub(I64(work.m), start)
            self._load_panel(start, left)
            for k in range(work.panel):
                if work.pivots % work.panel <= k and work.pivots % work.panel:
                    with b.if_then(b.icmp_signed("<", b.add(start, I64(k)), I64(work.pivots))):
                        self._step(start, left, k)
                else:
                    self._step(start, left, k)
            self._store_panel(start, left)
            if work.n > work.panel:
                self._beside(start)
        b.store(b.load(self.info, typ=I32), info)

    # -- the panel
    def _load_panel(self, start: ir.Value, left: ir.Value) -> None:
        """Brings rows from the first pivot's on into columns, and searches the first one."""
        b, work, size = self.b, self.work, self.work.panel
        self._forget()
        with loop(b, 0, left, work.rows.count, "rows") as row:
            for part in range(0, work.rows.count, size):
                here = b.add(row, I64(part))
                index = b.add(b.mul(b.add(start, here), I64(work.stride)), start)
                columns = transposed(b, work.tile.load(b, self.matrix, index, work.stride))
                work.tile.store(b, self.panel, here, work.depth, columns)
            self._look(work.rows.load(b, self.panel, row), row, -1)

    def _store_panel(self, start: ir.Value, left: ir.Value) -> None:
        b, work = self.b, self.work
        with loop(b, 0, left, work.panel, "rows") as row:
            rows = transposed(b, work.tile.load(b, self.panel, row, work.depth))
            index = b.add(b.mul(b.add(start, row), I64(work.stride)), start)
            work.tile.store(b, self.matrix, index, work.stride, rows)

    def _step(self, start: ir.Value, left: ir.Value, k: int) -> None:
        """Pivot `k` of a panel: its row is exchanged, and its column is subtracted from those behind."""
        b, work, lanes = self.b, self.work, self.work.rows
        found = self._found(k)
        number = b.add(start, I64(k))
        pivot_number = b.trunc(b.add(b.add(start, found), I64(1)), I32)
        b.store(pivot_number, _integer_at(b, self.pivots, number))
        with b.if_then(b.icmp_signed("!=", found, I64(k))):
            self._exchange(start, k, found)
        pivot = load_scalar(b, self.panel, work.dtype, I64(k * work.depth + k))
        is_zero = b.fcmp_ordered("==", _size(b, pivot), pivot[0].type(0.0))
        info = b.load(self.info, typ=I32)
        is_first = b.and_(is_zero, b.icmp_signed("==", info, I32(0)))
        b.store(b.select(is_first, b.trunc(b.add(number, I64(1)), I32), info), self.info)
        # all numbers below it are zeros, too
        pivot[0] = b.select(is_zero, pivot[0].type(1.0), pivot[0])
        behind = [
            lanes.splat(b, load_scalar(b, self.panel, work.dtype, I64(c * work.depth + k)))
            for c in range(k + 1, work.panel)
        ]
        self._forget()
        with loop(b, 0, left, lanes.count, "rows") as row:
            below = self._below(row, k)
            index = b.add(row, I64(k * work.depth))
            whole = lanes.load(b, self.panel, index)
            factors = lanes.quotient(b, whole, pivot)
            lanes.store(b, self.panel, index, selected(b, below, factors, whole))
            for c, scale in enumerate(behind, k + 1):
                index = b.add(row, I64(c * work.depth))
                old = lanes.load(b, self.panel, index)
                new = selected(b, below, lanes.minus_product(b, old, factors, scale), old)
                lanes.store(b, self.panel, index, new)
                if c == k + 1:
                    self._look(new, row, k)

    def _below(self, row: ir.Value, k: int) -> ir.Value:
        """Which of a vector's rows are below the panel's row `k`."""
        return self.b.icmp_signed(">", self._numbers(row), uniform(ir.VectorType(I32, self.work.rows.count), k))

    def _numbers(self, row: ir.Value) -> ir.Value:
        b, count = self.b, self.work.rows.count
        return b.add(splat(b, b.trunc(row, I32), count), constant_vector(list(range(count))))

    def _exchange(self, start: ir.Value, k: int, found: ir.Value) -> None:
        b, work, dtype, lanes = self.b, self.work, self.work.dtype, self.work.columns
        for c in range(work.panel):
            one, other = I64(c * work.depth + k), b.add(found, I64(c * work.depth))
            x, y = (load_scalar(b, self.panel, dtype, index) for index in (one, other))
            for index, value in ((one, y), (other, x)):
                whole = types.Complex(*value) if dtype.is_complex else value[0]
                element_access.store(b, self.panel, dtype, index, whole)
        one, other = (b.mul(b.add(start, r), I64(work.stride)) for r in (I64(k), found))
        with loop(b, 0, work.n, lanes.count, "columns") as column:
            indices = [b.add(r, column) for r in (one, other)]
            x, y = (lanes.load(b, self.matrix, index) for index in indices)
            lanes.store(b, self.matrix, indices[0], y)
            lanes.store(b, self.matrix, indices[1], x)

    # -- the search of a pivot: the greatest of each lane so far, and its row
    def _forget(self) -> None:
        self.b.store(uniform(self.work.rows.kind, -1.0), self.best)
        self.b.store(uniform(ir.VectorType(I32, self.work.rows.count), 0), self.place)

    def _look(self, values: Number, row: ir.Value, k: int) -> None:
        """Notes what is greater, in rows below `k + 1` or there; never NaN."""
        b, work = self.b, self.work
        sizes, numbers = _size(b, values), self._numbers(row)
        best = b.load(self.best, typ=work.rows.kind)
        allowed = b.icmp_signed(">", numbers, uniform(numbers.type, k))
        is_greater = b.and_(allowed, b.fcmp_ordered(">", sizes, best))
        b.store(b.select(is_greater, sizes, best), self.best)
        b.store(b.select(is_greater, numbers, b.load(self.place, typ=numbers.type)), self.place)

    def _found(self, k: int) -> ir.Value:
        """The first row of the greatest number; `k` if that one is NaN, as in LAPACK, or all are."""
        b, work = self.b, self.work
        kind = work.rows.kind
        best, place = b.load(self.best, typ=kind), b.load(self.place, typ=ir.VectorType(I32, kind.count))
        greatest = overloaded(b, "vector.reduce.fmax", [kind], kind.element, [best])
        same = b.fcmp_ordered("==", best, splat(b, greatest, kind.count))
        places = b.select(same, place, uniform(place.type, (1 << 31) - 1))
        first = overloaded(b, "vector.reduce.smin", [place.type], I32, [places])
        own = _size(b, load_scalar(b, self.panel, work.dtype, I64(k * work.depth + k)))
        is_there = b.fcmp_ordered(">=", greatest, own)
        return b.select(is_there, b.zext(first, I64), I64(k))

    # -- what is right of it
    def _beside(self, start: ir.Value) -> None:
        b, work, lanes, size = self.b, self.work, self.work.columns, self.work.panel
        first = b.add(start, I64(size))
        aligned = b.and_(first, I64(-lanes.count))
        end = b.select(b.icmp_signed("<", first, I64(work.n)), I64(work.n), I64(0))
        with loop(b, aligned, end, lanes.count * work.vectors, "columns") as column:
            places = [b.add(column, I64(v * lanes.count)) for v in range(work.vectors)]
            masks = [self._from(place, first) for place in places]
            solved: list[Sequence[Number]] = []
            for k in range(size):
                row = b.mul(b.add(start, I64(k)), I64(work.stride))
                values = self._subtracted(b.add(row, start), row, places, solved)
                self._store(row, places, masks, values)
                solved.append(values)
            with loop(b, first, work.m, name="below") as number:
                row = b.mul(number, I64(work.stride))
                self._store(row, places, masks, self._subtracted(b.add(row, start), row, places, solved))

    def _from(self, place: ir.Value, first: ir.Value) -> ir.Value:
        """Which of a vector's columns are right of a panel."""
        b, count = self.b, self.work.columns.count
        numbers = b.add(splat(b, b.trunc(place, I32), count), constant_vector(list(range(count))))
        return b.icmp_signed(">=", numbers, splat(b, b.trunc(first, I32), count))

    def _subtracted(
        self, factors: ir.Value, row: ir.Value, places: Sequence[ir.Value], solved: Sequence[Sequence[Number]]
    ) -> list[Number]:
        """A row less the products of its factors and the solved ones."""
        b, lanes = self.b, self.work.columns
        values = [lanes.load(b, self.matrix, b.add(row, place)) for place in places]
        for k, known in enumerate(solved):
            scalar = load_scalar(b, self.matrix, self.work.dtype, b.add(factors, I64(k)))
            factor = lanes.splat(b, scalar)
            values = [lanes.minus_product(b, x, factor, y) for x, y in zip(values, known, strict=True)]
        return values

    def _store(
        self, row: ir.Value, places: Sequence[ir.Value], masks: Sequence[ir.Value], values: Sequence[Number]
    ) -> None:
        b, lanes = self.b, self.work.columns
        for place, mask, value in zip(places, masks, values, strict=True):
            index = b.add(row, place)
            lanes.store(b, self.matrix, index, selected(b, mask, value, lanes.load(b, self.matrix, index)))
