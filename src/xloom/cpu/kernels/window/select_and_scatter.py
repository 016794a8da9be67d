"""Select-and-scatter: the gradient of pooling by selection.

Small windows that lie in the array as a whole go a line at a time (`select_and_scatter_lines.py`), others here: one
after the other, adjacent columns together.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.cpu.kernels.window.axes import WindowAxis, axes_of
from xloom.cpu.kernels.window.select_and_scatter_lines import emit_by_lines, line_tiling
from xloom.cpu.kernels.window.window_loops import coordinates, each_element
from xloom.hlo.instruction import Instruction
from xloom.llvm.element_access import load, store
from xloom.llvm.element_bits import bits_type
from xloom.llvm.loop import allocate, loop
from xloom.llvm.noalias import distinct
from xloom.llvm.routine import least, read, write
from xloom.llvm.scalar.elementwise import choose
from xloom.llvm.scalar.promotion import apply_promoted
from xloom.llvm.scalar.scalar_computation import apply
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I32, I64, Value

_COLUMNS = 128
"""Adjacent windows that are an item, and go an element of each at a time."""
_TASK = 10_000
"""Elements selected from in about 20 µs."""


@kernel("select-and-scatter")
def select_and_scatter(kernel: Kernel, instruction: Instruction) -> None:
    """One phase; its items are the rows before the axes with windows and pieces of the columns after them, or lines."""
    shape = kernel.operands[0]
    if not shape.size:
        return
    axes = axes_of(shape.dims, instruction["window"])
    tiling = line_tiling(axes, shape.dtype)
    if tiling:
        emit_by_lines(kernel, instruction, tiling)
        return
    rows = axes.pop(0).size if axes[0].is_plain else 1
    columns = axes.pop().size if axes and axes[-1].is_plain else 1
    blocks = -(-columns // _COLUMNS)
    work = shape.size // rows // blocks
    with kernel.phase(rows * blocks, max(1, _TASK // work)) as phase:
        pointers = [*(phase.operand(k) for k in range(3)), phase.output(0)]
        with distinct(phase.b, pointers, [phase.begin, phase.end]) as (b, pointers, bounds):
            windows = _Windows(instruction, b, pointers, axes, columns)
            with loop(b, bounds[0], bounds[1], name="item") as item:
                windows.emit(b.udiv(item, I64(blocks)), times(b, b.urem(item, I64(blocks)), _COLUMNS))


class _Windows:
    """What is done for a row's columns from one on."""

    def __init__(
        self, instruction: Instruction, b: ir.IRBuilder, pointers: list[ir.Value], axes: list[WindowAxis], columns: int
    ):
        self.b, self.axes, self.columns = b, axes, columns
        self.operand, self.source, self.initial, self.output = pointers
        self.instruction, self.dtype = instruction, instruction.shape.dtype
        width = min(columns, _COLUMNS)
        self.best = allocate(b, bits_type(self.dtype), width)
        # where in the operand's row, without the column; -1 before there is one
        self.number = I32 if math.prod(a.size for a in axes) * columns < 1 << 31 else I64
        self.chosen = allocate(b, self.number, width)

    def emit(self, row: ir.Value, begin: ir.Value) -> None:
        """Fills the columns with the initial value, and then goes over their windows."""
        b, columns = self.b, self.columns
        sizes, counts = (math.prod(getattr(a, name) for a in self.axes) for name in ("size", "count"))
        count = least(b, b.sub(I64(columns), begin), I64(_COLUMNS)) if columns > 1 else I64(1)
        start = plus(b, times(b, row, sizes * columns), begin)
        initial = load(b, self.initial, self.dtype, I64(0))
        with loop(b, 0, sizes) as i, self._each_column(count) as column:
            store(b, self.output, self.dtype, plus(b, plus(b, start, times(b, i, columns)), column), initial)
        first = plus(b, times(b, row, counts * columns), begin)
        with loop(b, 0, counts, name="window") as number:
            windows = coordinates(b, number, self.axes)
            self._select(windows, start, count)
            self._scatter(windows, start, count, plus(b, first, times(b, number, columns)))

    def _select(self, windows: list[ir.Value], start: ir.Value, count: ir.Value) -> None:
        """The first place that no later one is selected over."""
        b, dtype = self.b, self.dtype
        with self._each_column(count) as column:
            write(b, self.chosen, column, self.number(-1))
            store(b, self.best, dtype, column, load(b, self.initial, dtype, I64(0)))
        with each_element(b, self.axes, windows) as element, self._each_column(count) as column:
            value = load(b, self.operand, dtype, plus(b, plus(b, start, element), column))
            best, chosen = load(b, self.best, dtype, column), read(b, self.chosen, self.number, column)
            kept = apply(b, self.instruction["select"], [best, value])[0]
            taken = b.or_(b.icmp_signed("<", chosen, self.number(0)), b.not_(kept))
            store(b, self.best, dtype, column, choose(b, taken, value, best))
            write(b, self.chosen, column, b.select(taken, self._narrowed(element), chosen))

    def _scatter(self, windows: list[ir.Value], start: ir.Value, count: ir.Value, source: ir.Value) -> None:
        b = self.b
        if self.columns == 1:
            chosen = read(b, self.chosen, self.number, I64(0))
            with b.if_then(b.icmp_signed(">=", chosen, self.number(0))):
                element = b.sext(chosen, I64) if self.number is I32 else chosen
                target = plus(b, start, element)
                store(b, self.output, self.dtype, target, self._combined(target, source))
            return
        # all places of the windows again, which is vector code where going to each column's own would not be
        with each_element(b, self.axes, windows) as element, self._each_column(count) as column:
            target = plus(b, plus(b, start, element), column)
            here = b.icmp_signed("==", read(b, self.chosen, self.number, column), self._narrowed(element))
            old = load(b, self.output, self.dtype, target)
            new = self._combined(target, plus(b, source, column))
            store(b, self.output, self.dtype, target, choose(b, here, new, old))

    def _combined(self, target: ir.Value, source: ir.Value) -> Value:
        b, dtype = self.b, self.dtype
        elements = [load(b, self.output, dtype, target), load(b, self.source, dtype, source)]
        return apply_promoted(b, self.instruction["scatter"], elements, [dtype] * 2, [dtype])[0]

    def _narrowed(self, element: ir.Value) -> ir.Value:
        return self.b.trunc(element, I32) if self.number is I32 else element

    def _each_column(self, count: ir.Value) -> AbstractContextManager[ir.Value]:
        return loop(self.b, 0, count, name="column") if self.columns > 1 else nullcontext(I64(0))
