"""An operand rearranged into panels: `width` rows (or columns) side by side, for each place of the depth.

Elements of a panel lie as [depth][part][width], in the accumulator's type. Rows past the end of a last panel repeat
the last row: what they are multiplied to is not stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.emit.types import I64
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts, lanes_below, shuffled
from xloom.cpu.kernels.matmul.axes import Axes, count, inner, linear_offset
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import at_most, rolled

_BLOCK = 8  # rows and places of the depth that are transposed in registers at once


@dataclass(frozen=True)
class Packing:
    """How panels are made of operand "a" or "b": its array, its rows and its depth, and the width of a panel."""

    arithmetic: Arithmetic
    source: Array
    operand: str
    rows: Axes
    depth: Axes
    width: int

    @property
    def panels(self) -> int:
        """How many panels the operand has."""
        return -(-count(self.rows) // self.width)

    def panel_size(self, depth: int) -> int:
        """Elements of the accumulator's parts in a panel."""
        return depth * self.arithmetic.parts * self.width

    def emit(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        base: ir.Value,
        first: ir.Value,
        begin: ir.Value,
        size: ir.Value,
        panel: ir.Value,
    ) -> None:
        """Packs rows from `first` on and `size` places of the depth from `begin` on; `base` is where row 0 lies."""
        row, place = inner(self.rows), inner(self.depth)
        if row.stride(self.operand) == 1 and (len(self.rows) == 1 or row.size % self.width == 0):
            self._copy(b, pointer, base, first, begin, size, panel)
        elif place.stride(self.operand) == 1 and (len(self.depth) == 1 or place.size % _BLOCK == 0):
            self._transpose(b, pointer, base, first, begin, size, panel)
        else:
            self._elements(b, pointer, base, first, begin, I64(0), size, panel)

    def _row(self, b: ir.IRBuilder, base: ir.Value, index: ir.Value) -> ir.Value:
        index = at_most(b, index, count(self.rows) - 1)
        return b.add(base, linear_offset(b, self.rows, index, self.operand))

    def _copy(self, b, pointer, base, first, begin, size, panel) -> None:
        """Rows are adjacent: vectors of them."""
        arithmetic, width, total = self.arithmetic, self.width, count(self.rows)
        start = b.add(base, linear_offset(b, self.rows, first, self.operand))
        pieces = []
        for at in range(0, width, arithmetic.lanes):
            lanes = min(arithmetic.lanes, width - at)
            mask = lanes_below(b, lanes, b.sub(I64(total - at), first)) if total % width else None
            pieces.append((at, lanes, mask))
        with rolled(b, 0, size, name="k") as k:
            line = b.add(start, linear_offset(b, self.depth, b.add(begin, k), self.operand))
            for at, lanes, mask in pieces:
                value = arithmetic.load(b, pointer, self.source.dtype, b.add(line, I64(at)), lanes, mask)
                self._put(b, panel, k, I64(at), value)

    def _transpose(self, b, pointer, base, first, begin, size, panel) -> None:
        """Places of the depth are adjacent: square blocks of rows and depth, transposed in registers."""
        arithmetic = self.arithmetic
        whole = b.and_(size, I64(-_BLOCK))
        with rolled(b, 0, self.width, _BLOCK, name="group") as group:
            group = at_most(b, group, max(0, self.width - _BLOCK))
            at = [self._row(b, base, b.add(b.add(first, group), I64(r))) for r in range(_BLOCK)]
            with rolled(b, 0, whole, _BLOCK, name="k") as k:
                line = linear_offset(b, self.depth, b.add(begin, k), self.operand)
                rows = [arithmetic.load(b, pointer, self.source.dtype, b.add(x, line), _BLOCK) for x in at]
                columns = [transposed(b, [x[p] for x in rows]) for p in range(arithmetic.parts)]
                kept = min(_BLOCK, self.width)
                for j in range(_BLOCK):
                    value = [c[j] if kept == _BLOCK else shuffled(b, c[j], range(kept)) for c in columns]
                    self._put(b, panel, b.add(k, I64(j)), group, value)
        self._elements(b, pointer, base, first, begin, whole, size, panel)

    def _elements(self, b, pointer, base, first, begin, low, high, panel) -> None:
        """One element after the other."""
        with rolled(b, 0, self.width, name="row") as r:
            start = self._row(b, base, b.add(first, r))
            with rolled(b, low, high, name="k") as k:
                at = b.add(start, linear_offset(b, self.depth, b.add(begin, k), self.operand))
                self._put(b, panel, k, r, self.arithmetic.load(b, pointer, self.source.dtype, at, 1))

    def _put(self, b: ir.IRBuilder, panel: ir.Value, k: ir.Value, at: ir.Value, value: Parts) -> None:
        for p, part in enumerate(value):
            place = b.add(b.mul(b.add(b.mul(k, I64(len(value))), I64(p)), I64(self.width)), at)
            align = self.arithmetic.dtype.real.bytes
            b.store(part, b.gep(panel, [place], inbounds=True, source_etype=self.arithmetic.element), align=align)

    def get(self, b: ir.IRBuilder, panel: ir.Value, at: ir.Value, place: int, lanes: int) -> Parts:
        """`lanes` rows from row `place` on, where `at` is the element at which a place of the depth begins."""
        kind, element = self.arithmetic.kind(lanes), self.arithmetic.element
        align = self.arithmetic.dtype.real.bytes
        return [
            b.load(
                b.gep(panel, [b.add(at, I64(p * self.width + place))], inbounds=True, source_etype=element),
                typ=kind,
                align=align,
            )
            for p in range(self.arithmetic.parts)
        ]


def transposed(b: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square block of 2**n rows: each step exchanges quarters of ever larger blocks."""
    size = len(rows)
    step = 1
    while step < size:
        out = list(rows)
        for k in range(size):
            if k & step:
                continue
            low = [j if not j & step else size + j - step for j in range(size)]
            high = [j + step if not j & step else size + j for j in range(size)]
            out[k] = shuffled(b, rows[k], low, rows[k + step])
            out[k + step] = shuffled(b, rows[k], high, rows[k + step])
        rows, step = out, 2 * step
    return rows
