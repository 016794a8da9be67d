"""What factorisations and triangular systems are made of, a block of rows after another.

Two kernels do all of the work, each for a step whose number they read from memory, so that all steps are the same code:
`Strips` makes a block of rows X of a solution, T X = W, where T is the block on the diagonal of a lower triangle, and
`Update` takes what those rows say from all rows below, W -= L X.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.kernel import DeviceKernel, strided
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel, Place, Variable
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DType
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I64

COLUMNS = 64
"""Of the right side that a block solves for, a thread each."""
SIDE = 64
"""Of a tile that a block of `Update` has, 16 x 16 threads."""
_EACH = 4
"""Elements along each side of a thread's part of that."""


def depth(dtype: DType) -> int:
    """Rows of a step."""
    return 32 if dtype.bytes <= 8 else 16


def step_number(step: int) -> BufferAllocation:
    """Memory with the first row of a step (i64)."""
    return BufferAllocation("code", 8, data=np.int64(step).tobytes())


@dataclass(frozen=True)
class System:
    """T X = W of `batch` systems, with n rows, and m columns of W: where each lies, and in which arrays."""

    dtype: DType
    batch: int
    n: int
    m: int
    triangle: Place
    right: Place
    solution: Place
    is_unit: bool = False
    """Whether the diagonal of T is not read, as if it were 1."""
    is_square: bool = False
    """Whether W is the matrix that T is of: what is right of the diagonal block is solved for."""


class Strips(MatrixKernel):
    """A block of rows of the solution: a block of threads for `COLUMNS` of its columns each.

    With `factors`, T is the Cholesky factor of a Hermitian block on the diagonal, which each block factors for itself.
    """

    def __init__(
        self, lowering: ThunkLowering, system: System, arrays: Sequence[BufferAllocation], *, factors: bool = False
    ):
        """`arrays`: the triangle's, the right side's, the solution's, the step's number."""
        super().__init__(lowering, system.dtype, arrays, COLUMNS)
        self.system, self.factors = system, factors
        self.rows = depth(system.dtype)
        self.triangle, self.strip = self.tile(self.rows, self.rows), self.tile(self.rows, COLUMNS)

    @staticmethod
    def blocks(system: System, columns: int) -> int:
        """How many there are for so many columns."""
        return system.batch * -(-columns // COLUMNS)

    def made(self) -> DeviceKernel:
        """The kernel."""
        b, s, rows = self.b, self.system, I64(self.rows)
        start = self.number(3)
        n, m = I64(s.n), I64(s.m)
        first = b.add(start, rows) if s.is_square else I64(0)
        tiles = b.sdiv(b.add(b.sub(m, first), I64(COLUMNS - 1)), I64(COLUMNS))
        tiles = intrinsic(b, "smax", tiles, I64(1))
        number, tile = b.udiv(self.kernel.block, tiles), b.urem(self.kernel.block, tiles)
        triangle, right, solution = (
            Matrix(b, pointer, self.lanes, place, number)
            for pointer, place in zip(self.pointers, (s.triangle, s.right, s.solution), strict=False)
        )
        column = b.add(first, b.mul(tile, I64(COLUMNS)))
        end = intrinsic(b, "smin", b.add(start, rows), n)
        self.fill(self.triangle, self.rows, self.rows, triangle, (start, start), (end, end))
        self.fill(self.strip, self.rows, COLUMNS, right, (start, column), (end, m))
        self.kernel.barrier()
        height = b.sub(end, start)
        if self.factors:
            self._factor(height)
            with b.if_then(b.icmp_signed("==", tile, I64(0))):
                self._store_factor(solution, start, height)
        self._solve(height)
        if not solution.has_rows:  # else threads store what is their own
            self.kernel.barrier()
        with self.each(self.rows * COLUMNS) as item:
            i, j = self.split(item, self.rows, COLUMNS, by_rows=solution.has_rows)
            row, there = b.add(start, i), b.add(column, j)
            with b.if_then(b.and_(b.icmp_signed("<", row, end), b.icmp_signed("<", there, m))):
                solution.put(row, there, self.strip.get(i, j))
        what = "factored, and those beside it solved for" if self.factors else "solved for"
        return self.finished(f"{self.rows} rows of {s.batch} systems of {s.n} {what}, {COLUMNS} columns a block")

    def _solve(self, height: ir.Value) -> None:
        """Each thread has a column."""
        b, thread = self.b, self.kernel.thread
        with strided(b, I64(0), height, 1) as i:
            total = Variable(b, self.lanes)
            total.set(self.strip.get(i, thread))
            with strided(b, I64(0), i, 1) as k:
                found = self.triangle.get(i, k), self.strip.get(k, thread)
                total.set(self.lanes.minus_product(b, total.get(), *found))
            value = total.get()
            if not self.system.is_unit:
                value = self.quotient(value, self.triangle.get(i, i))
            self.strip.put(i, thread, value)

    def _factor(self, height: ir.Value) -> None:
        """The lower factor of the tile, in place; what is above the diagonal means nothing."""
        b, tile, thread = self.b, self.triangle, self.kernel.thread
        with strided(b, I64(0), height, 1) as c:
            pivot = self.root(self.real(tile.get(c, c)[0]))
            self.kernel.barrier()
            with b.if_then(b.icmp_signed("==", thread, c)):
                tile.put(c, c, [self.vector(pivot), *self.zero[1:]])
            below = b.and_(b.icmp_signed(">", thread, c), b.icmp_signed("<", thread, height))
            with b.if_then(below):
                scale = self.vector(b.fdiv(ir.Constant(pivot.type, 1.0), pivot))
                tile.put(thread, c, [b.fmul(part, scale) for part in tile.get(thread, c)])
            self.kernel.barrier()
            with b.if_then(below), strided(b, b.add(c, I64(1)), b.add(thread, I64(1)), 1) as j:
                other = tile.get(j, c)
                other = [other[0], *(b.fneg(part) for part in other[1:])]
                tile.put(thread, j, self.lanes.minus_product(b, tile.get(thread, j), tile.get(thread, c), other))
            self.kernel.barrier()

    def _store_factor(self, solution: Matrix, start: ir.Value, height: ir.Value) -> None:
        """The diagonal block of the solution is the adjoint of the lower factor."""
        b = self.b
        with self.each(self.rows * self.rows) as item:
            i, j = self.split(item, self.rows, self.rows, by_rows=solution.has_rows)
            inside = b.and_(b.icmp_signed("<", j, height), b.icmp_signed("<=", i, j))
            with b.if_then(inside):
                value = self.triangle.get(j, i)
                solution.put(b.add(start, i), b.add(start, j), [value[0], *(b.fneg(part) for part in value[1:])])


class Update(MatrixKernel):
    """W -= L X of all rows below those of a step: a block for each tile of W.

    Of a Hermitian W, tiles below the diagonal are left alone.
    """

    def __init__(
        self,
        lowering: ThunkLowering,
        system: System,
        arrays: Sequence[BufferAllocation],
        below: Place,
        *,
        is_hermitian: bool = False,
    ):
        """`arrays`: of L, whose places `below` says; of X; of W; the step's number."""
        super().__init__(lowering, system.dtype, arrays, (SIDE // _EACH) ** 2)
        self.system, self.below, self.is_hermitian = system, below, is_hermitian
        self.depth = depth(system.dtype)
        self.tiles = self.tile(SIDE, self.depth), self.tile(self.depth, SIDE)

    @staticmethod
    def blocks(system: System, rows: int, columns: int) -> int:
        """How many there are for so many rows and columns."""
        return system.batch * -(-rows // SIDE) * -(-columns // SIDE)

    def made(self) -> DeviceKernel:
        """The kernel."""
        b, s = self.b, self.system
        start = self.number(3)
        first = b.add(start, I64(self.depth))
        first_column = first if s.is_square else I64(0)
        heights, widths = (
            b.sdiv(b.add(b.sub(I64(size), begin), I64(SIDE - 1)), I64(SIDE))
            for size, begin in ((s.n, first), (s.m, first_column))
        )
        tile = b.udiv(self.kernel.block, heights)
        i, number, j = b.urem(self.kernel.block, heights), b.udiv(tile, widths), b.urem(tile, widths)
        if not self.is_hermitian:
            self._tile(number, start, (first, first_column), (i, j))
        else:
            with b.if_then(b.icmp_signed("<=", i, j)):
                self._tile(number, start, (first, first_column), (i, j))
        return self.finished(f"tiles of {SIDE} x {SIDE} of what {self.depth} rows of {s.batch} systems say of others")

    def _tile(
        self, number: ir.Value, start: ir.Value, first: tuple[ir.Value, ir.Value], tile: tuple[ir.Value, ir.Value]
    ) -> None:
        b, s = self.b, self.system
        below, solution, right = (
            Matrix(b, pointer, self.lanes, place, number)
            for pointer, place in zip(self.pointers, (self.below, s.solution, s.right), strict=False)
        )
        row, column = (b.add(f, b.mul(t, I64(SIDE))) for f, t in zip(first, tile, strict=True))
        n, m, end = I64(s.n), I64(s.m), b.add(start, I64(self.depth))
        factors, strip = self.tiles
        self.fill(factors, SIDE, self.depth, below, (row, start), (n, end))
        self.fill(strip, self.depth, SIDE, solution, (start, column), (end, m))
        self.kernel.barrier()
        across = SIDE // _EACH
        mine = self.split(self.kernel.thread, across, across, by_rows=right.has_rows)
        lines = [[b.add(x, I64(k * across)) for k in range(_EACH)] for x in mine]
        sums = [[Variable(b, self.lanes) for _ in range(_EACH)] for _ in range(_EACH)]
        for total in (x for line in sums for x in line):
            total.set(self.zero)
        with strided(b, I64(0), I64(self.depth), 1) as k:
            left, over = [factors.get(i, k) for i in lines[0]], [strip.get(k, j) for j in lines[1]]
            for x, line in zip(left, sums, strict=True):
                for y, total in zip(over, line, strict=True):
                    total.set(self.lanes.minus_product(b, total.get(), x, y))
        for i, line in zip(lines[0], sums, strict=True):
            for j, total in zip(lines[1], line, strict=True):
                there = b.add(row, i), b.add(column, j)
                with b.if_then(b.and_(b.icmp_signed("<", there[0], n), b.icmp_signed("<", there[1], m))):
                    old = right.get(*there)
                    right.put(*there, [b.fadd(x, y) for x, y in zip(old, total.get(), strict=True)])
