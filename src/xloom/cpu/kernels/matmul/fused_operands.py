"""Operands that are never whole in memory: what a block of the product needs of them is made just before."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.matmul.axes import Product, inner
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.loops.panel_function import call_lines
from xloom.llvm.element_access import store
from xloom.llvm.loop import allocate
from xloom.llvm.types import POINTER, constant, element_pointer, i64, memory_type


class LineBuffer:
    """Memory on the stack for some lines of an operand that a function makes."""

    def __init__(self, b: ir.IRBuilder, array: Array, lines: int, length: int):
        self.array, self.apart = array, length
        self.pointer = allocate(b, memory_type(array.dtype), lines * length)
        self.pointer.align, self.pointer.type = 64, POINTER

    def fill(
        self,
        b: ir.IRBuilder,
        context: ir.Value,
        first: ir.Value,
        length: ir.Value,
        lines: ir.Value | None = None,
        stride: ir.Value | None = None,
        number: int = 0,
    ) -> None:
        """Makes `lines` lines, `stride` elements apart in the operand; they become line `number` and those after it."""
        target = element_pointer(b, self.pointer, self.array.dtype, i64(number * self.apart))
        call_lines(b, context, [target, i64(self.apart), first, stride or i64(0), lines or i64(1), length])

    def clear(self, b: ir.IRBuilder, at: ir.Value) -> None:
        """Writes zero to element `at`."""
        store(b, self.pointer, self.array.dtype, at, constant(0, self.array.dtype))


def has_lines(product: Product, operand: str) -> bool:
    """True when an operand that is packed lies in lines along its rows or along the depth."""
    rows = product.rows if operand == "a" else product.columns
    if len(rows) != 1:
        return False
    return inner(rows).stride(operand) == 1 or (len(product.depth) == 1 and product.depth[0].stride(operand) == 1)
