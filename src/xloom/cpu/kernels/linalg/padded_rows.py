"""Matrices in scratch memory, whose rows have zeros behind them, so that all vectors of a row are whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from xloom.cpu.kernels.linalg.lanes import Lanes
from xloom.llvm.loop import loop
from xloom.llvm.masked_lanes import masked_load, masked_store
from xloom.llvm.types import I64, element_pointer
from xloom.llvm.vectors import first_lanes, uniform


@dataclass(frozen=True)
class PaddedRows:
    """Rows of `columns` numbers, `stride` apart; both it and what they are moved by are whole vectors."""

    lanes: Lanes
    columns: int
    stride: int

    def read(self, b: ir.IRBuilder, source: ir.Value, target: ir.Value, rows: int) -> None:
        """Copies rows that lie side by side."""
        kind, moved = self._words, self._whole + (self.lanes.count if self._rest else 0)
        with self._rows(b, (source, self.columns), (target, self.stride), rows) as (here, there):
            if self._rest:
                word = masked_load(b, here, self._mask, uniform(kind, 0), self._align)
                b.store(word, self._at(b, target, b.add(there, I64(self._whole))), align=self._align)
            if moved < self.stride:
                self.clear(b, target, b.add(there, I64(moved)), b.add(there, I64(self.stride)))

    def write(self, b: ir.IRBuilder, source: ir.Value, target: ir.Value, rows: int) -> None:
        """Copies rows to where they lie side by side."""
        with self._rows(b, (source, self.stride), (target, self.columns), rows) as (here, there):
            if self._rest:
                word = b.load(here, typ=self._words, align=self._align)
                masked_store(b, word, self._at(b, target, b.add(there, I64(self._whole))), self._mask, self._align)

    @contextmanager
    def _rows(
        self, b: ir.IRBuilder, source: tuple[ir.Value, int], target: tuple[ir.Value, int], rows: int
    ) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Copies whole vectors of each row, and gives the address of what is left, and the target's first number."""
        with loop(b, 0, rows, name="row") as row:
            here, there = (b.mul(row, I64(stride)) for _, stride in (source, target))
            with loop(b, 0, self._whole, self.lanes.count, "column") as k:
                word = b.load(self._at(b, source[0], b.add(here, k)), typ=self._words, align=self._align)
                b.store(word, self._at(b, target[0], b.add(there, k)), align=self._align)
            yield self._at(b, source[0], b.add(here, I64(self._whole))), there

    def clear(self, b: ir.IRBuilder, target: ir.Value, first: Any, end: Any) -> None:
        """Zeros in whole vectors of numbers from one on, up to another."""
        with loop(b, first, end, self.lanes.count, "zero") as k:
            b.store(uniform(self._words, 0), self._at(b, target, k), align=self._align)

    @property
    def _words(self) -> ir.VectorType:
        """Numbers are copied as integers."""
        return ir.VectorType(ir.IntType(self.lanes.dtype.real.bits), self.lanes.count * self.lanes.parts)

    @property
    def _align(self) -> int:
        return self.lanes.dtype.bytes // self.lanes.parts

    @property
    def _whole(self) -> int:
        """Of a row's numbers those of whole vectors."""
        return self.columns // self.lanes.count * self.lanes.count

    @property
    def _rest(self) -> int:
        return self.columns - self._whole

    @property
    def _mask(self) -> ir.Constant:
        return first_lanes(self.lanes.count * self.lanes.parts, self._rest * self.lanes.parts)

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        return element_pointer(b, pointer, self.lanes.dtype, index)
