"""Records of 64 bits that hold a key and the element's number, sorted by vectors."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.sort import vectors
from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.records import IndexedRecords, RowPointers
from xloom.cpu.kernels.sort.routines import number
from xloom.llvm.loop import loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import read, write
from xloom.llvm.types import I1, I32


def sort(kernel: Kernel, records: IndexedRecords) -> None:
    """Emits the phases that sort all rows."""
    vectors.sort(kernel, _Numbered(kernel, records))


class _Numbered:
    """Rows of records that hold a key and the element's number."""

    bits = 64
    pipeline = PassPipeline.ROUTINES
    in_output = False

    def __init__(self, kernel: Kernel, records: IndexedRecords):
        assert records.type.width == self.bits
        self.rows, self.records = records.rows, records
        self._number = None
        key = ElementKey.of(records.keys[0]) if len(records.keys) == 1 else None
        if key and key.dtype.bits == 32 and self.rows.stride == 1:
            self._number = number(kernel, key)

    def read(self, b: ir.IRBuilder, row: RowPointers, array: ir.Value, begin: ir.Value, end: ir.Value) -> ir.Value:
        """Makes the records of [begin, end)."""
        if self._number is not None:
            operand = row.operands[self.records.keys[0].operand]
            elements = b.gep(operand, [row.base], inbounds=True, source_etype=I32)
            b.call(self._number, [elements, array, begin, end])
        else:
            with loop(b, begin, end) as i:
                write(b, array, i, self.records.read(b, row, i))
        return I1(0)

    def write(
        self, b: ir.IRBuilder, row: RowPointers, array: ir.Value, begin: ir.Value, end: ir.Value, changed: ir.Value
    ) -> None:
        """Copies the elements to [begin, end) of the outputs."""
        with loop(b, begin, end) as i:
            self.records.write(b, row, i, read(b, array, self.records.type, i))

    def kept(self, b: ir.IRBuilder, row: RowPointers) -> RowPointers:
        """What elements are read of while others are written: copies, where the records ask for them."""
        return self.records.kept(b, row)
