"""Rows whose elements are their own keys, sorted by vectors where they end."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.sort import vectors
from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.records import RowPointers
from xloom.cpu.kernels.sort.routines import conversions
from xloom.cpu.kernels.sort.rows import Rows
from xloom.llvm.memory_copy import copy
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.strided_loops import plus
from xloom.llvm.types import I64, i64


def sort(kernel: Kernel, rows: Rows, key: ElementKey) -> None:
    """Emits the phases that sort all rows, which are contiguous."""
    vectors.sort(kernel, _Elements(kernel, rows, key))


class _Elements:
    """Rows whose elements are their own keys, sorted where they end."""

    def __init__(self, kernel: Kernel, rows: Rows, key: ElementKey):
        self.rows, self.bits, self.in_output = rows, key.dtype.bits, True
        self.pipeline = PassPipeline.CALLERS
        self._convert, self._back, self._restore = conversions(kernel, key)

    def read(self, b: ir.IRBuilder, row: RowPointers, array: ir.Value, begin: ir.Value, end: ir.Value) -> ir.Value:
        """Makes keys of the elements [begin, end); true when some are not told apart."""
        source = self._at(b, row.operands[0], plus(b, row.base, begin))
        return b.call(self._convert, [source, self._at(b, array, begin), b.sub(end, begin)])

    def write(
        self, b: ir.IRBuilder, row: RowPointers, array: ir.Value, begin: ir.Value, end: ir.Value, changed: ir.Value
    ) -> None:
        """Makes elements of sorted keys, which differ from other parts'; `changed` when some were not told apart."""
        first, count = self._at(b, array, begin), b.sub(end, begin)
        output = self._at(b, vectors.in_output(b, row, ir.IntType(self.bits)), begin)
        if self._restore is None:
            b.call(self._back, [first, output, count])
            return
        with b.if_else(changed) as (some, none):
            with some:  # the unsorted row may lie where the output does
                b.call(self._back, [first, first, count])
                source = self._at(b, row.operands[0], row.base)
                b.call(self._restore, [source, i64(self.rows.size), array, begin, end])
                copy(b, output, first, b.mul(count, I64(self.bits // 8)))
            with none:
                b.call(self._back, [first, output, count])

    def kept(self, b: ir.IRBuilder, row: RowPointers) -> RowPointers:
        """What is read again is so before the first is written."""
        return row

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        return b.gep(pointer, [index], inbounds=True, source_etype=ir.IntType(self.bits))
