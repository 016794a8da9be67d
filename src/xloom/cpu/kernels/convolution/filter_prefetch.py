"""A filter that no near cache holds: the tiles that read a panel of it fetch lines of what is read next."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.convolution.window_pointers import Loops
from xloom.cpu.kernels.matmul.tile import Tile
from xloom.llvm.cache_lines import LINE
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import i64


class FilterPrefetch(NamedTuple):
    """How the rows of a panel lie; each tile fetches one line of each, and the next tile the next line."""

    row: int
    """Bytes from one to the next."""
    lines: int
    """Of a row, that a tile reads."""
    rows: int
    """In a panel."""

    @staticmethod
    def of(tile: Tile, loops: Loops, tiles: int) -> FilterPrefetch | None:
        """For a panel that so many tiles read; None if they are too few, or its rows do not follow one another."""
        size, rows, row = tile.arithmetic.dtype.bytes, 1, 0
        for extent, (_, step) in reversed(loops):
            row = row or step
            if isinstance(extent, ir.Value) or step != row * rows:
                return None
            rows *= extent
        lines = max(1, tile.columns * size // LINE)
        return FilterPrefetch(row * size, lines, rows) if tiles >= lines else None

    def distance(self, b: ir.IRBuilder, number: ir.Value, rows: int | SymbolicDimension) -> ir.Value:
        """How many bytes after each row that tile `number` reads a line lies that it fetches: its own, `rows` on."""
        return b.add(i64(rows * self.row), b.mul(b.urem(number, i64(self.lines)), i64(LINE)))
