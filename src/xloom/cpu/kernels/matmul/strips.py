"""A matrix times very few vectors, where its rows are adjacent: multiples of columns are added to strips of results."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Parts
from xloom.cpu.kernels.matmul.axes import Axis, count, inner
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.matrix_rows import STREAMS, MatrixRows
from xloom.cpu.kernels.matmul.tile import at_most, needed_lanes, nest, rolled, share
from xloom.llvm.cache_lines import CACHED
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import POINTER, element_pointer, i64
from xloom.llvm.vectors import lanes_below

_RUN_BYTES = 4096
"""Of a row of memory that an item reads at once: in shorter runs, the hardware fetches too little ahead."""
_SHARE = 8
"""Of the second cache, what the results take of a thread that reads memory once: in longer runs, the hardware finds out
what comes next, and pages are neighbours."""
_STATE = 2
"""Bytes of results for each byte of the matrix that is read: of more, these should be in the first-level cache."""
_STRIPS = 4096
"""Elements of the results of an item, so that they stay in the first-level cache."""


class Strips(MatrixRows):
    """An item is a strip of every result. The multiples wait in registers for the elements of the matrix."""

    def emit(self) -> None:
        """Adds the phase, with as long strips as stay in the nearest cache."""
        self.results = int(self.column.size)
        self.stride = inner(self.product.depth).a
        self.streams = STREAMS if self.results == 1 else STREAMS // 2
        self.lanes = needed_lanes(self.arithmetic, self.row.size)
        # results of a row are loaded and stored once for the columns that meet it: enough of these to be worth it
        self.vectors = least(self.wide, STREAMS // self.results)
        self.rows_per_iteration = self.lanes * self.vectors
        strip = least(_STRIPS, _RUN_BYTES // self.matrix.dtype.bytes)
        self.most = least(strip, _STRIPS // self.results // self.rows_per_iteration * self.rows_per_iteration)
        self.height = -(-share(self.row.size, self.most) // self.rows_per_iteration) * self.rows_per_iteration
        nbytes = self.row.size * count(self.product.depth) * self.matrix.dtype.bytes
        caches = self.arithmetic.target.caches
        is_streamed = self.results > 1 or nbytes > CACHED * caches.last
        self.is_fetched = is_streamed and not self.matrix.is_made
        is_alone = not self.product.batch and len(self.product.rows) == 1
        is_light = self.results * self.arithmetic.dtype.bytes <= _STATE * self.matrix.dtype.bytes
        self.is_long = self.is_fetched and is_alone and is_light and self.row.size > self.most
        if self.is_long:
            self.most = caches.second // _SHARE // self.arithmetic.dtype.bytes // self.results
            self.together = greatest(1, self.most // self.height)
            self.is_fetched = False
        super().emit()

    def prepare(self, b: ir.IRBuilder) -> ir.Value:
        """Memory for the results of a strip, and for rows that are made."""
        self._line_buffer = (
            LineBuffer(b, self.matrix, self.streams, self.most + self.rows_per_iteration)
            if self.matrix.is_made
            else None
        )
        vectors = self.arithmetic.parts * (self.most + self.rows_per_iteration) // self.lanes
        memory = allocate(b, self.arithmetic.kind(self.lanes), vectors * self.results)
        memory.align, memory.type = 64, POINTER
        return memory

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        """A strip from row `first` on."""
        assert isinstance(state, ir.Value)
        b, arithmetic, lanes = phase.b, self.arithmetic, self.lanes
        size = at_most(b, b.sub(i64(self.row.size), first), self.height * self.together)
        if self.is_long:
            size = intrinsic(b, "smin", size, b.sub(b.mul(phase.end, i64(self.height)), first))
        with rolled(b, 0, size, lanes) as i, rolled(b, 0, self.results) as number:
            self._put(b, state, i, number, arithmetic.zero(lanes))
        *outer, depth = self.product.depth or (Axis(1, 0, 0, 0),)
        loops = [(x.size, (x.a, x.b)) for x in outer]
        whole = depth.size - depth.size % self.streams

        def body(at: list[ir.Value]) -> None:
            for begin, end, streams in ((0, whole, self.streams), (whole, depth.size, 1)):
                if begin < end:
                    with rolled(b, begin, end, streams, name="k") as k:
                        spots = [b.add(k, i64(s)) for s in range(streams)]
                        rows = [b.add(at[0], b.mul(spot, i64(depth.a))) for spot in spots]
                        factors = [b.add(at[1], b.mul(spot, i64(depth.b))) for spot in spots]
                        self._add(phase, state, rows, factors, size)

        nest(b, loops, [b.add(starts["a"], first), starts["b"]], body)
        with rolled(b, 0, size, lanes) as i, rolled(b, 0, self.results) as number:
            at = b.add(b.add(starts["c"], first), b.add(i, b.mul(number, i64(self.column.c))))
            value = self._get(b, state, i, number)
            arithmetic.store(b, self.result.pointer(phase), self.result.dtype, at, value, self._mask(b, size, i))

    def _add(
        self, phase: PhaseBuilder, state: ir.Value, rows: list[ir.Value], factors: list[ir.Value], size: ir.Value
    ) -> None:
        b, arithmetic, lanes = phase.b, self.arithmetic, self.lanes
        vector, matrix = self.vector.pointer(phase), self.matrix.pointer(phase)

        if self._line_buffer is not None:
            self._line_buffer.fill(b, matrix, rows[0], size, i64(len(rows)), i64(self.stride))
            matrix, rows = self._line_buffer.pointer, [i64(s * self._line_buffer.apart) for s in range(len(rows))]
        scalars = [
            [
                arithmetic.splat(
                    b, arithmetic.load(b, vector, self.vector.dtype, b.add(at, i64(j * self.column.b)), 1), lanes
                )
                for at in factors
            ]
            for j in range(self.results)
        ]
        with rolled(b, 0, size, self.rows_per_iteration) as first:
            vectors = [b.add(first, i64(at)) for at in range(0, self.rows_per_iteration, lanes)]
            masks = [self._mask(b, size, i) for i in vectors]
            # runs are too short for the hardware to find out what comes next
            for row in rows if self.is_fetched else ():
                ahead = b.add(b.add(row, first), i64(self.streams * self.stride))
                self.fetch_row(b, matrix, ahead, self.rows_per_iteration)
            totals = [[self._get(b, state, i, i64(j)) for i in vectors] for j in range(self.results)]
            for s, row in enumerate(rows):
                here = element_pointer(b, matrix, self.matrix.dtype, b.add(row, first))
                line = arithmetic.load_several(b, here, self.matrix.dtype, lanes, masks)
                for total, factors in zip(totals, scalars, strict=True):
                    for v, x in enumerate(line):
                        total[v] = arithmetic.multiply_add(b, x, factors[s], total[v])
            for j, total in enumerate(totals):
                for i, value in zip(vectors, total, strict=True):
                    self._put(b, state, i, i64(j), value)

    def _mask(self, b: ir.IRBuilder, size: ir.Value, i: ir.Value) -> ir.Value | None:
        return lanes_below(b, self.lanes, b.sub(size, i)) if self.row.size % self.rows_per_iteration else None

    def _pointers(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value) -> list[ir.Value]:
        parts, element = self.arithmetic.parts, self.arithmetic.element
        at = b.add(b.mul(i, i64(parts * self.results)), b.mul(number, i64(parts * self.lanes)))
        return [
            b.gep(state, [b.add(at, i64(p * self.lanes))], inbounds=True, source_etype=element) for p in range(parts)
        ]

    def _get(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value) -> Parts:
        return [
            b.load(pointer, typ=self.arithmetic.kind(self.lanes)) for pointer in self._pointers(b, state, i, number)
        ]

    def _put(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value, value: Parts) -> None:
        for part, pointer in zip(value, self._pointers(b, state, i, number), strict=True):
            b.store(part, pointer)
