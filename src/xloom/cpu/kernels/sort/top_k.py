"""Top-k: by selection where k is small, else the first k of a sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.cpu.kernels.sort.keys import Key
from xloom.cpu.kernels.sort.records import IndexedRecords, RowPointers
from xloom.cpu.kernels.sort.rows import Rows
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape
from xloom.llvm.element_bits import move
from xloom.llvm.routine import write
from xloom.llvm.strided_loops import plus
from xloom.llvm.target import Target
from xloom.llvm.types import I32, I64, i64

_NETWORK_SIZE = 512
_SELECTED = 64
"""Of so many elements one is selected in less than half the time in which all of a short row are sorted."""
_GREATEST = 4096
"""The greatest k that is selected, for what the stack holds."""


@form_of("topk")
def topk_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem:
    """Where k is small, the code of a row does for longer ones and for any number of them."""
    shape, k = shapes[0], instruction["k"]
    rows = Rows.along(shape, shape.rank - 1)
    is_open = rows.size > _NETWORK_SIZE and 0 < k <= min(_GREATEST, rows.size // 4)

    def opened(size: Callable[[int], Any]) -> Rows:
        return Rows(size(rows.count), size(rows.size), rows.stride) if is_open else rows

    return form(f"topk {k} {'largest' if instruction['largest'] else 'least'} {shape.dtype.name}", opened)


@kernel("topk")
def topk(kernel: Kernel, instruction: Instruction) -> None:
    """The first k in total order, equal ones by index."""
    shape, k = instruction._operands[0].shape, instruction["k"]
    if not k or not shape.size:
        return
    rows = kernel.problem or Rows.along(shape, shape.rank - 1)
    records = _Top(rows, shape.dtype, instruction["largest"], k)
    # no more is imported than what is needed: all of it would take as long as to compile it
    is_short = rows.size <= _NETWORK_SIZE and k * _SELECTED > rows.size
    if is_short and rows.count >= 8 and records.type.width == 64:
        from xloom.cpu.kernels.sort import network

        network.sort(kernel, records)
    elif k <= min(_GREATEST, rows.size // 4):
        from xloom.cpu.kernels.sort import selection

        selection.select(kernel, records, k)
    elif records.type.width == 64 and kernel.target.packs_lanes():
        from xloom.cpu.kernels.sort import packed_keys

        packed_keys.sort(kernel, records)
    else:
        from xloom.cpu.kernels.sort import radix

        radix.sort(kernel, records)


class _Top(IndexedRecords):
    """Records of which only the first k are written: the values and their indices."""

    def __init__(self, rows: Rows, dtype: DType, largest: bool, k: int):
        element = Instruction("x", "parameter", array_shape(dtype, ()), attrs={"parameter_number": 0})
        super().__init__(rows, [dtype], [Key(element, descending=largest, total_order=True)])
        self.k = k

    def write(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value, record: ir.Value) -> None:
        """Copies the value, and writes its index."""
        with b.if_then(b.icmp_unsigned("<", i, I64(self.k))):
            number = self.number(b, record)
            target = plus(b, b.mul(b.udiv(row.base, i64(self.rows.size)), I64(self.k)), i)
            move(b, row.operands[0], plus(b, row.base, number), row.outputs[0], target, self.dtypes[0])
            write(b, row.outputs[1], target, b.trunc(number, I32))
