"""A matrix times few vectors, where the depth is adjacent in both: sums in lanes, which are added up at the end."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import PhaseBuilder
from xloom.cpu.kernels.matmul.axes import inner
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.matrix_rows import STREAMS, MatrixRows
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, needed_lanes, nest, rolled, share, spaced
from xloom.llvm.cache_lines import LINE, fetch
from xloom.llvm.symbolic_dimension import divides, greatest, least
from xloom.llvm.types import element_pointer, i64
from xloom.llvm.vectors import lanes_below

_RUN = 1024
"""Elements of a row that are made at once."""
_AT_ONCE = 4
"""Vectors that rows of the matrix meet while they are in registers; of rows that are made, all do."""
_SHORT_ROW = 4096
"""Bytes of a row of narrow elements, that ends when the hardware has found out where it goes."""
_SPARE = 2
"""Registers that hold neither sums nor elements."""


class _Lines(NamedTuple):
    """Where rows of the matrix are: the first begins at element `first` from `pointer` on."""

    pointer: ir.Value
    first: ir.Value
    apart: int


class Dots(MatrixRows):
    """An item is a few rows of the matrix, which meet the vectors a group after the other."""

    def prepare(self, b: ir.IRBuilder) -> Sums:
        """The sums of a tile, and memory for rows that are made."""
        self._line_buffer = LineBuffer(b, self.matrix, self.tile.rows, _RUN) if self.matrix.is_made else None
        return Sums(b, self.tile)

    def emit(self) -> None:
        """Adds the phase, with as large tiles as the registers hold."""
        depth, columns = inner(self.product.depth).size, int(self.column.size)
        self.group = share(columns, STREAMS if self.matrix.is_made else _AT_ONCE)
        self.groups = -(-columns // self.group)
        self.wide = int(least(self.wide, greatest(1, STREAMS // self.group)))
        free = (self.arithmetic.target.registers.count - _SPARE) // self.arithmetic.parts - self.group * self.wide
        most = least(STREAMS // self.arithmetic.parts, greatest(1, free // (self.group + 1)))
        self.height = int(share(self.row.size, greatest(1, most)))
        lanes = needed_lanes(self.arithmetic, depth)
        self.vectors = int(greatest(1, least(STREAMS // (self.height * self.group), depth // lanes)))
        self.tile = Tile(self.arithmetic, self.height, self.vectors * self.group, lanes)
        super().emit()

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        """Rows from `first` on; the last item begins early enough to end with the last row."""
        assert isinstance(state, Sums)
        b, tile, row = phase.b, self.tile, self.row
        first = at_most(b, first, row.size - tile.rows)
        start = b.add(starts["a"], b.mul(first, i64(row.a)))
        outer = [(x.size, (x.a, x.b)) for x in self.product.depth[:-1]]
        pointer, dtype = self.result.pointer(phase), self.result.dtype
        groups = rolled(b, 0, self.groups, name="group") if self.groups > 1 else nullcontext(i64(0))
        with groups as number:
            column = at_most(b, b.mul(number, i64(self.group)), int(self.column.size) - self.group)
            ahead = self._ahead(b, number)
            state.clear(b)
            vector = b.add(starts["b"], b.mul(column, i64(self.column.b)))
            nest(b, outer, [start, vector], lambda at: self._depth(phase, state, at, ahead))
            target = b.add(starts["c"], b.mul(column, i64(self.column.c)))
            for r in range(tile.rows):
                at = b.add(target, b.mul(b.add(first, i64(r)), i64(row.c)))
                for j in range(self.group):
                    total = state.get(b, r, j)
                    for v in range(1, self.vectors):
                        total = self.arithmetic.add(b, total, state.get(b, r, v * self.group + j))
                    index = b.add(at, i64(j * self.column.c)) if j else at
                    self.arithmetic.store(b, pointer, dtype, index, self.arithmetic.reduced(b, total))

    def _ahead(self, b: ir.IRBuilder, number: ir.Value) -> list[ir.Value]:
        """How far the rows of the next item lie that a group of vectors has fetched: each its share."""
        nbytes = inner(self.product.depth).size * self.matrix.dtype.bytes
        is_followed = self.group * self.groups == 1 and (self.wide == 1 or nbytes > _SHORT_ROW)
        if self._line_buffer is not None or is_followed:
            return []  # the hardware keeps up with a vector
        rows = [at_most(b, b.add(number, i64(k)), self.height - 1) for k in range(0, self.height, self.groups)]
        return [b.mul(b.add(row, i64(self.height)), i64(self.row.a)) for row in rows]

    def _depth(self, phase: PhaseBuilder, sums: Sums, at: list[ir.Value], ahead: list[ir.Value]) -> None:
        b, size = phase.b, inner(self.product.depth).size
        if self._line_buffer is None:
            self._lines(phase, sums, _Lines(self.matrix.pointer(phase), at[0], self.row.a), at[1], size, ahead)
            return
        with rolled(b, 0, size, _RUN, name="run") as k:
            length = at_most(b, b.sub(i64(size), k), _RUN)
            lines = i64(self.tile.rows)
            self._line_buffer.fill(b, self.matrix.pointer(phase), b.add(at[0], k), length, lines, i64(self.row.a))
            self._lines(phase, sums, _Lines(self._line_buffer.pointer, i64(0), _RUN), b.add(at[1], k), length, ahead)

    def _lines(
        self,
        phase: PhaseBuilder,
        sums: Sums,
        rows: _Lines,
        vector: ir.Value,
        size: int | ir.Value,
        ahead: list[ir.Value],
    ) -> None:
        b, lanes = phase.b, self.tile.lanes
        step = self.vectors * self.wide * lanes
        if isinstance(size, ir.Value):
            end, whole = size, b.sub(size, b.urem(size, i64(step)))
        else:
            end, whole = i64(size), size - size % step
        with rolled(b, 0, whole, step, name="k") as k:
            for distance in ahead:
                for line in range(0, step, LINE // self.matrix.dtype.bytes):
                    index = b.add(b.add(rows.first, k), b.add(distance, i64(line)))
                    fetch(b, element_pointer(b, rows.pointer, self.matrix.dtype, index), near=False)
            for v in range(self.vectors):
                self._multiply(phase, sums, v, rows, vector, b.add(k, i64(v * self.wide * lanes)), None, self.wide)
        if not divides(step, size):
            with rolled(b, whole, end, lanes, name="k") as k:
                mask = None if divides(lanes, size) else lanes_below(b, lanes, b.sub(end, k))
                self._multiply(phase, sums, 0, rows, vector, k, mask, 1)

    def _multiply(
        self,
        phase: PhaseBuilder,
        sums: Sums,
        v: int,
        rows: _Lines,
        vector: ir.Value,
        k: ir.Value,
        mask: ir.Value | None,
        wide: int,
    ) -> None:
        """Adds the products of `wide` vectors of each row from place `k` of the depth on."""
        b, arithmetic, source = phase.b, self.arithmetic, self.vector
        start = element_pointer(b, source.pointer(phase), source.dtype, b.add(vector, k))
        vectors = spaced(b, start, source.dtype, self.column.b)
        start = element_pointer(b, rows.pointer, self.matrix.dtype, b.add(rows.first, k))
        lines, lanes, masks = spaced(b, start, self.matrix.dtype, rows.apart), self.tile.lanes, [mask] * wide
        factors = [arithmetic.load_several(b, vectors(j), source.dtype, lanes, masks) for j in range(self.group)]
        for r in range(self.tile.rows):
            line = arithmetic.load_several(b, lines(r), self.matrix.dtype, lanes, masks)
            for j, factor in enumerate(factors):
                total = sums.get(b, r, v * self.group + j)
                for x, y in zip(line, factor, strict=True):
                    total = arithmetic.multiply_add(b, x, y, total)
                sums.set(b, r, v * self.group + j, total)
