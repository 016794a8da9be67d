"""Large windows of an associative operator, an axis after the other, in few steps an element.

The folds of 2, 4, 8 ... adjacent elements each take one step from the ones before; those that add up to the window
make its fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from xloom.cpu.emit.bits import bits_type, move
from xloom.cpu.emit.loop import allocate, loop
from xloom.cpu.emit.nest import plus, times
from xloom.cpu.emit.routine import function, greatest, least
from xloom.cpu.emit.types import I64, POINTER, load
from xloom.cpu.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.windows.axes import Axis
from xloom.cpu.kernels.windows.folder import Folder
from xloom.cpu.kernels.windows.operator import LANES, VectorOperator

_OVERLAP = 16
"""In how many windows an element is, at the least, for this to pay."""
_GREATEST_WINDOW = 1024
_BLOCK = 8192
"""Elements that are folded at a time."""
_TASK = 40_000
"""Elements folded in about 20 µs."""


def is_large(folder: Folder, axes: list[Axis]) -> bool:
    """True when the windows are dense, and so large that folding each on its own takes longer."""
    windows = [a.window for a in axes]
    dense = all(w.base_dilation == 1 and w.window_dilation == 1 and w.stride <= w.size for w in windows)
    folded, elements = math.prod(a.window.size * a.count for a in axes), math.prod(a.size for a in axes)
    fits = max(w.size for w in windows) <= _GREATEST_WINDOW and 0 < _OVERLAP * elements <= folded
    return dense and fits and VectorOperator.of(folder) is not None


def fold_by_axis(kernel: Kernel, folder: Folder, axes: list[Axis]) -> None:
    """Emits a phase for each axis that has windows."""
    operator = VectorOperator.of(folder)
    assert operator is not None
    combine = _combine_function(kernel, operator)
    sizes = [a.size for a in axes]
    numbers = [k for k, a in enumerate(axes) if not a.is_plain]
    passes = []
    for number in numbers:
        rows, columns = math.prod(sizes[:number]), math.prod(sizes[number + 1 :])
        sizes[number] = axes[number].count
        passes.append(_Pass(operator, combine, axes[number], rows, columns))
    source = _operand
    for k, step in enumerate(passes):
        # from where all later passes can go on in place, that place is the output
        target = _output
        if not all(later.is_in_place for later in passes[k + 1 :]):
            target = _scratch(kernel.add_scratch(step.count * operator.dtype.bytes))
        step.emit(kernel, source, target, final=step is passes[-1])
        source = target


Pointer = Callable[[PhaseBuilder], ir.Value]


def _operand(phase: PhaseBuilder) -> ir.Value:
    return phase.operand(0)


def _output(phase: PhaseBuilder) -> ir.Value:
    return phase.output(0)


def _scratch(number: int) -> Pointer:
    return lambda phase: phase.scratch(number)


def _combine_function(kernel: Kernel, operator: VectorOperator) -> ir.Function:
    """`combine(target, source, count)`: target = target op source; the source may lie ahead in the target."""
    with function(kernel.module, "combine", [POINTER, POINTER, I64]) as (b, out):
        target, source, count = out.args
        with loop(b, 0, count, LANES) as i:
            operator.store(b, target, i, operator.apply(b, operator.load(b, target, i), operator.load(b, source, i)))
    return out


class _Pass:
    """Windows along one axis, of an array of `rows` times the axis times `columns`."""

    def __init__(self, operator: VectorOperator, combine: ir.Function, axis: Axis, rows: int, columns: int):
        self.operator, self.combine, self.axis, self.rows, self.columns = operator, combine, axis, rows, columns
        w = axis.window
        self.width = min(columns, max(LANES, _BLOCK // (4 * w.size)))
        self.windows = min(axis.count, max(w.size, _BLOCK // self.width) // w.stride + 1)
        self.length = (self.windows - 1) * w.stride + w.size
        self.pieces = -(-columns // self.width), -(-axis.count // self.windows)

    @property
    def count(self) -> int:
        """Elements that it makes."""
        return self.rows * self.axis.count * self.columns

    @property
    def is_in_place(self) -> bool:
        """True when an item reads all that lies where it writes, before it does so, and others do not."""
        return self.axis.count == self.axis.size and self.pieces[1] == 1

    def emit(self, kernel: Kernel, source: Pointer, target: Pointer, final: bool) -> None:
        """The phase, from one array to another."""
        items = self.rows * math.prod(self.pieces)
        with kernel.phase(items, max(1, _TASK // (self.length * self.width))) as phase:
            b = phase.b
            arrays = source(phase), target(phase)
            elements = self.length * self.width + LANES
            folds, out = (allocate(b, bits_type(self.operator.dtype), elements) for _ in range(2))
            with loop(b, phase.begin, phase.end, name="item") as item:
                row, piece = b.udiv(item, I64(math.prod(self.pieces))), b.urem(item, I64(math.prod(self.pieces)))
                column = times(b, b.urem(piece, I64(self.pieces[0])), self.width)
                window = times(b, b.udiv(piece, I64(self.pieces[0])), self.windows)
                self._read(b, arrays[0], folds, row, column, window)
                self._fill(b, out, I64(0), I64(elements - LANES), self._start(phase, final))
                self._fold(b, folds, out)
                self._write(b, arrays[1], out, row, column, window)

    def _start(self, phase: PhaseBuilder, final: bool) -> ir.Value:
        operator, b = self.operator, phase.b
        return operator.splat(b, load(b, phase.operand(1), operator.dtype, I64(0))) if final else operator.neutral

    def _fill(self, b: ir.IRBuilder, array: ir.Value, begin: ir.Value, end: ir.Value, vector: ir.Value) -> None:
        with loop(b, begin, end, LANES) as i:
            self.operator.store(b, array, i, vector)

    def _read(
        self, b: ir.IRBuilder, source: ir.Value, folds: ir.Value, row: ir.Value, column: ir.Value, window: ir.Value
    ) -> None:
        """The elements of the windows, and neutral ones around them."""
        w, size, length = self.axis.window, self.axis.size, I64(self.length)
        first = plus(b, times(b, window, w.stride), -w.padding_low)
        low = least(b, greatest(b, b.neg(first), I64(0)), length)
        high = greatest(b, low, least(b, b.sub(I64(size), first), length))
        # the elements that are filled too many behind the low ones are read over, and those at the end are spare
        self._fill(b, folds, I64(0), times(b, low, self.width), self.operator.neutral)
        start = plus(b, times(b, row, size * self.columns), column)
        place = plus(b, start, times(b, plus(b, first, low), self.columns))
        self._move(
            b, source, place, self.columns, folds, times(b, low, self.width), self.width, b.sub(high, low), column
        )
        self._fill(b, folds, times(b, high, self.width), times(b, length, self.width), self.operator.neutral)

    def _fold(self, b: ir.IRBuilder, folds: ir.Value, out: ir.Value) -> None:
        size, width, kind = self.axis.window.size, self.width, bits_type(self.operator.dtype)
        step, offset, length = 1, 0, self.length
        results = I64((self.length - size + 1) * width)
        while step <= size:
            if size & step:
                here = b.gep(folds, [I64(offset * width)], inbounds=True, source_etype=kind)
                b.call(self.combine, [out, here, results])
                offset += step
            if 2 * step <= size:
                ahead = b.gep(folds, [I64(step * width)], inbounds=True, source_etype=kind)
                length -= step
                b.call(self.combine, [folds, ahead, I64(length * width)])
            step *= 2

    def _write(
        self, b: ir.IRBuilder, target: ir.Value, out: ir.Value, row: ir.Value, column: ir.Value, window: ir.Value
    ) -> None:
        count = least(b, b.sub(I64(self.axis.count), window), I64(self.windows))
        start = plus(b, times(b, row, self.axis.count * self.columns), column)
        place = plus(b, start, times(b, window, self.columns))
        step = self.axis.window.stride * self.width
        self._move(b, out, I64(0), step, target, place, self.columns, count, column)

    def _move(
        self,
        b: ir.IRBuilder,
        source: ir.Value,
        source_place: ir.Value,
        source_step: int,
        target: ir.Value,
        target_place: ir.Value,
        target_step: int,
        count: ir.Value,
        column: ir.Value,
    ) -> None:
        """Copies `count` times the columns of this item."""
        dtype = self.operator.dtype
        if source_step == target_step == self.width:
            with loop(b, 0, times(b, count, self.width)) as i:
                move(b, source, plus(b, source_place, i), target, plus(b, target_place, i), dtype)
            return
        columns = least(b, b.sub(I64(self.columns), column), I64(self.width)) if self.columns > 1 else I64(1)
        with loop(b, 0, count) as i:
            here = plus(b, source_place, times(b, i, source_step))
            there = plus(b, target_place, times(b, i, target_step))
            with loop(b, 0, columns) as c:
                move(b, source, plus(b, here, c), target, plus(b, there, c), dtype)
