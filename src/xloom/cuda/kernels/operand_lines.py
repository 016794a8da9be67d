"""Where a tile's elements of a product's operand are in global memory, from which slices of them are copied."""

from __future__ import annotations

from functools import reduce

from llvmlite import ir

from xloom.cuda.kernel import KernelBuilder
from xloom.cuda.kernels.product import Operand, offset
from xloom.llvm.types import I64


class OperandLines:
    """An operand, for the tile that begins at line `first` of `size` lines of `k` elements."""

    def __init__(
        self,
        kernel: KernelBuilder,
        operand: Operand,
        pointer: ir.Value,
        lines: tuple[ir.Value, int, int],
        batch: ir.Value,
        element: ir.IntType,
    ):
        self.kernel, self.operand, self.element = kernel, operand, element
        self._pointer = pointer
        self._first, self._size, self._k = lines
        self._base = offset(kernel.b, operand.batch, batch)

    def source(self, line: ir.Value, deep: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where an element is, and whether there is one."""
        b = self.kernel.b
        at = b.add(self._first, line, flags=["nsw"])
        place, conditions = self.operand.place(b, at, deep)
        conditions.append(b.icmp_signed("<", at, I64(self._size)))
        conditions.append(b.icmp_signed("<", deep, I64(self._k)))
        inside = reduce(b.and_, conditions)
        index = b.select(inside, b.add(self._base, place, flags=["nsw"]), I64(0))
        return b.gep(self._pointer, [index], inbounds=True, source_etype=self.element), inside
