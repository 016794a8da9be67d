"""A matrix times several vectors, where its rows are adjacent: updates of a strip of all results, of a small rank each.

Elements of a few columns of the matrix are loaded once, and wait in registers while one result after the other adds its
multiples of them. The matrix is not packed, and may come from memory as fast as it can.
"""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Parts
from xloom.cpu.kernels.matmul.axes import Axis, count, inner
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.matrix_rows import STREAMS, MatrixRows
from xloom.cpu.kernels.matmul.operands import widened_array
from xloom.cpu.kernels.matmul.tile import at_most, needed_lanes, nest, rolled, share
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import divides, greatest, least
from xloom.llvm.types import POINTER, element_pointer, i64
from xloom.llvm.vectors import lanes_below

_SPARE = 4
"""Registers for addresses, masks and a factor, beside the elements of the matrix and a vector of results."""
_SHARE = 4
"""Of the second cache, what the results of a strip take."""
_LEAST_STRIPS, _LEAST_RUN = 4, 512
"""Strips for the threads to share, where they have as many elements."""
_RUN_BYTES = 8192
"""Of a row of memory that an item reads at once, for the hardware to find out what comes next."""


class RankUpdates(MatrixRows):
    """An item is a strip of every result. The result's vectors lie beside one another, one result after the other."""

    def emit(self) -> None:
        """Adds the phase, with as long strips as stay in the second cache."""
        arithmetic, row, registers = self.arithmetic, self.row.size, self.arithmetic.target.registers
        self.results = self.column.size
        self.lanes = needed_lanes(arithmetic, row)
        self.vectors = max(self.wide, 2 // arithmetic.parts)
        self.step = self.lanes * self.vectors
        free = (registers.count - _SPARE) // arithmetic.parts - self.vectors
        self.rank = max(1, min(STREAMS, free // self.vectors))
        if self.vector.dtype is not arithmetic.dtype:
            size = count(self.product.batch) * count(self.product.depth) * count(self.product.columns)
            self.vector = widened_array(self.kernel, arithmetic, self.vector, size)
        self.run = _RUN_BYTES // self.matrix.dtype.bytes // self.step * self.step
        self.state = arithmetic.target.caches.second // _SHARE // arithmetic.dtype.bytes
        even = greatest(_LEAST_RUN, -(-row // _LEAST_STRIPS))
        most = least(least(self.run, even), self.state // self.results) // self.step * self.step
        self.is_even = divides(self.step, row)
        self.height = -(-share(row, greatest(self.step, most)) // self.step) * self.step
        super().emit()

    def prepare(self, b: ir.IRBuilder) -> ir.Value:
        """Memory for the results of a strip, and for rows that are made."""
        self._line_buffer = LineBuffer(b, self.matrix, self.rank, self.run) if self.matrix.is_made else None
        memory = allocate(b, self.arithmetic.element, self.arithmetic.parts * self.state)
        memory.align, memory.type = 64, POINTER
        return memory

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        """A strip from row `first` on."""
        assert isinstance(state, ir.Value)
        b, arithmetic, lanes = phase.b, self.arithmetic, self.lanes
        size = at_most(b, b.sub(i64(self.row.size), first), self.height)
        with rolled(b, 0, size, self.step) as i, rolled(b, 0, self.results) as number:
            for v in range(self.vectors):
                self._put(b, self._results(b, state, i, number), v, arithmetic.zero(lanes))
        *outer, depth = self.product.depth or (Axis(1, 0, 0, 0),)
        loops = [(x.size, (x.a, x.b)) for x in outer]

        def body(at: list[ir.Value]) -> None:
            whole = depth.size // self.rank * self.rank
            for begin, end, rank in ((0, whole, self.rank), (whole, depth.size, 1)):
                with rolled(b, begin, end, rank, name="k") as k:
                    row, factor = b.add(at[0], b.mul(k, i64(depth.a))), b.add(at[1], b.mul(k, i64(depth.b)))
                    self._update(phase, state, row, factor, size, rank)

        nest(b, loops, [b.add(starts["a"], first), starts["b"]], body)
        for i, masks in self._steps(b, size):
            with rolled(b, 0, self.results) as number:
                here = self._results(b, state, i, number)
                target = b.add(b.add(starts["c"], first), b.add(i, b.mul(number, i64(self.column.c))))
                for v, mask in enumerate(masks):
                    value, at = self._get(b, here, v), b.add(target, i64(v * lanes))
                    arithmetic.store(b, self.result.pointer(phase), self.result.dtype, at, value, mask)

    def _update(
        self, phase: PhaseBuilder, state: ir.Value, row: ir.Value, factor: ir.Value, size: ir.Value, rank: int
    ) -> None:
        """Adds to the results the products of `rank` columns of the matrix and as many factors of each."""
        b, arithmetic, depth = phase.b, self.arithmetic, inner(self.product.depth)
        matrix, dtype, apart = self.matrix.pointer(phase), self.matrix.dtype, depth.a
        if self._line_buffer is not None:
            self._line_buffer.fill(b, matrix, row, size, i64(rank), i64(depth.a))
            matrix, row, apart = self._line_buffer.pointer, i64(0), self._line_buffer.apart
        vector = element_pointer(b, self.vector.pointer(phase), self.vector.dtype, factor)
        for i, masks in self._steps(b, size):
            here = [b.add(b.add(row, i), b.mul(i64(apart), i64(k))) for k in range(rank)]
            if not self.matrix.is_made and rank == self.rank:
                for at in here:
                    self.fetch_row(b, matrix, b.add(at, b.mul(i64(apart), i64(rank))), self.step)
            lines = [
                arithmetic.load_several(b, element_pointer(b, matrix, dtype, at), dtype, self.lanes, masks)
                for at in here
            ]
            with rolled(b, 0, self.results) as number:
                results = self._results(b, state, i, number)
                totals = [self._get(b, results, v) for v in range(self.vectors)]
                start = b.mul(number, i64(self.column.b))
                for k, line in enumerate(lines):
                    at = b.add(start, b.mul(i64(depth.b), i64(k)))
                    x = arithmetic.load(b, vector, self.vector.dtype, at, 1)
                    x = arithmetic.splat(b, x, self.lanes)
                    totals = [arithmetic.multiply_add(b, x, y, z) for y, z in zip(line, totals, strict=True)]
                for v, total in enumerate(totals):
                    self._put(b, results, v, total)

    def _steps(self, b: ir.IRBuilder, size: ir.Value) -> Iterator[tuple[ir.Value, list[ir.Value | None]]]:
        """Loops over the rows of a strip, and masks of those that are there: the last ones are apart."""
        whole = size if self.is_even else b.and_(size, i64(-self.step))
        with rolled(b, 0, whole, self.step) as i:
            yield i, [None] * self.vectors
        if not self.is_even:
            with rolled(b, whole, size, self.step) as i:
                left = b.sub(size, i)
                yield i, [lanes_below(b, self.lanes, b.sub(left, i64(v * self.lanes))) for v in range(self.vectors)]

    def _results(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value) -> ir.Value:
        """Where the vectors of a result from row `i` of the strip on are."""
        at = b.add(b.mul(i, i64(self.results)), b.mul(number, i64(self.step)))
        at = b.mul(at, i64(self.arithmetic.parts))
        return b.gep(state, [at], inbounds=True, source_etype=self.arithmetic.element)

    def _get(self, b: ir.IRBuilder, results: ir.Value, v: int) -> Parts:
        kind = self.arithmetic.kind(self.lanes)
        return [b.load(pointer, typ=kind) for pointer in self._parts(b, results, v)]

    def _put(self, b: ir.IRBuilder, results: ir.Value, v: int, value: Parts) -> None:
        for part, pointer in zip(value, self._parts(b, results, v), strict=True):
            b.store(part, pointer)

    def _parts(self, b: ir.IRBuilder, results: ir.Value, v: int) -> list[ir.Value]:
        parts, element = self.arithmetic.parts, self.arithmetic.element
        return [
            b.gep(results, [i64((v * parts + p) * self.lanes)], inbounds=True, source_etype=element)
            for p in range(parts)
        ]
