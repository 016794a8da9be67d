"""What products of a matrix and few vectors have in common: items along the innermost axis of the matrix's rows."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, offset
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.llvm.cache_lines import LINE, fetch
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import element_pointer, i64

STREAMS = 8
"""Rows read side by side: as many as the hardware fetches ahead of use."""
_GRAIN_BYTES = 1 << 18
"""Of memory, read in about 8 µs: where sharing does not pay, the pool finds out."""


class MatrixRows:
    """One phase, each item of which has `height` rows of the matrix, or fewer at the end."""

    height: int
    together = 1
    """Items that a thread does at once, where it has as many."""

    def __init__(
        self, kernel: Kernel, arithmetic: Arithmetic, product: Product, matrix: Array, vector: Array, result: Array
    ):
        self.kernel, self.arithmetic, self.product = kernel, arithmetic, product
        self.matrix, self.vector, self.result = matrix, vector, result
        self.row, self.column = inner(product.rows), inner(product.columns)
        # vectors of the arithmetic that a register holds the elements of, as the matrix has them in memory
        self.wide = max(1, arithmetic.dtype.real.bytes // matrix.dtype.real.bytes)

    def emit(self) -> None:
        """Adds the phase."""
        outer = (*self.product.batch, *self.product.rows[:-1])
        items = (*outer, Axis(-(-self.row.size // self.height), 0, 0, 0))
        nbytes = self.height * count(self.product.depth) * self.matrix.dtype.bytes
        with self.kernel.phase(count(items), greatest(1, _GRAIN_BYTES // nbytes)) as phase:
            b = phase.b
            state = self.prepare(b)
            with rolled(b, phase.begin, phase.end, self.together, name="item") as item:
                position = digits(b, items, item)
                starts = {name: offset(b, outer, position[:-1], name) for name in "abc"}
                self.item(phase, starts, b.mul(position[-1], i64(self.height)), state)

    def fetch_row(self, b: ir.IRBuilder, matrix: ir.Value, at: ir.Value, size: int) -> None:
        """Has `size` elements of a row of memory brought into the caches, from element `at` of the matrix on."""
        for first in range(0, size, max(1, LINE // self.matrix.dtype.bytes)):
            fetch(b, element_pointer(b, matrix, self.matrix.dtype, b.add(at, i64(first))), near=False)

    def prepare(self, b: ir.IRBuilder) -> object:
        """What all items use: memory on the stack."""
        raise NotImplementedError

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        """Computes the results of `height` rows from `first` on, or of `together` times as many, but no more than the
        phase's range has; the arrays' parts begin at `starts`, in elements."""
        raise NotImplementedError
