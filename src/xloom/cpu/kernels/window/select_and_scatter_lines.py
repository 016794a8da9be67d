"""Select-and-scatter of windows that lie in the array as a whole: lines of them go side by side in vectors.

An item has some rows of the result to itself, and goes over all windows that reach into them, in order. A line are the
elements of the last dimension, or its windows if it has any. Which of a window's elements is selected is found in
registers; then each row of the result that a line reaches gets what was selected there. Windows along the last
dimension meet its elements in steps: what lies so many apart is kept together, and put in order at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.window.axes import WindowAxis
from xloom.cpu.kernels.window.window_loops import coordinates, parts
from xloom.hlo.attributes import WindowDimension
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.llvm.element_access import load, store
from xloom.llvm.element_bits import bits_type, move
from xloom.llvm.loop import allocate, hints_for, loop
from xloom.llvm.noalias import distinct
from xloom.llvm.routine import greatest, least, read, write
from xloom.llvm.scalar.elementwise import choose
from xloom.llvm.scalar.promotion import apply_promoted
from xloom.llvm.scalar.scalar_computation import apply
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I64

_UNROLLED = 32
"""Elements of a window, at the most: all are compared in registers."""
_FEWEST = 16
"""Windows of a line, at the least: each is a lane."""
_LANES = 1024
"""Elements of the last dimension that are a line, at the most."""
_ITEM = 16_000
"""Elements of the result that are an item, if these are several rows."""
_ROWS = 4
"""How many windows' rows are an item, at the least: those at its ends are gone over twice."""
_STACK = 1 << 18
"""Bytes of results that are kept to be put in order, at the most."""
_TASK = 50_000
"""Elements of the result in about 20 µs."""


class LineTiling:
    """The windows as rows of lines, and what of them is an item."""

    def __init__(self, axes: Sequence[WindowAxis]):
        *outer, self.line = axes
        outer = outer or [WindowAxis(1, 1, WindowDimension(1), self.line.size)]
        self.batch = outer.pop(0).size if outer[0].is_plain and len(outer) > 1 else 1
        self.row, *self.inner = outer
        rows = max(_ITEM // self.row.stride, _ROWS * self.row.window.size)
        self.blocks = -(-self.row.size // rows)
        self.rows = -(-self.row.size // self.blocks)
        self.is_along = not self.line.is_plain
        """True when a line is of windows."""
        self.stride = self.line.window.stride if self.is_along else 1
        self.lanes = self.line.count if self.is_along else min(self.line.count, _LANES)
        self.pieces = 1 if self.is_along else -(-self.line.count // self.lanes)
        self.residues = -(-self.line.size // self.stride)
        """How many elements of a line lie at whole steps from one another."""

    @property
    def kept(self) -> int:
        """Elements of an item's result with what is between them."""
        return self.rows * (self.row.stride // self.line.size) * self.residues * self.stride

    @property
    def elements_per_row(self) -> int:
        """Elements of a window in each of its rows."""
        return math.prod(a.window.size for a in (*self.inner, self.line))


def line_tiling(axes: Sequence[WindowAxis], dtype: DType) -> LineTiling | None:
    """The lines of such windows, if these are whole, dense and small."""
    windows, tiling = [a.window for a in axes], LineTiling(axes)
    dense = all(w.base_dilation == w.window_dilation == 1 and not w.window_reversal for w in windows)
    whole = all(a.whole_windows == (0, a.count) for a in axes)
    small = 0 < math.prod(w.size for w in windows) <= _UNROLLED
    fits = not tiling.is_along or (tiling.lanes >= _FEWEST and tiling.kept * dtype.bytes <= _STACK)
    # what lies between windows is gone over, too: half of it at the most
    near = not tiling.is_along or tiling.stride < 2 * windows[-1].size
    return tiling if dense and whole and small and fits and near else None


def emit_by_lines(kernel: Kernel, instruction: Instruction, tiling: LineTiling) -> None:
    """Adds the phase of a select-and-scatter, whose items are blocks of lines of windows."""
    work = tiling.rows * tiling.row.stride // tiling.pieces
    with kernel.phase(tiling.batch * tiling.blocks * tiling.pieces, max(1, _TASK // work)) as phase:
        pointers = [*(phase.operand(k) for k in range(3)), phase.output(0)]
        with distinct(phase.b, pointers, [phase.begin, phase.end]) as (b, pointers, bounds):
            item = _Item(instruction, tiling, b, pointers)
            with loop(b, *bounds, name="item") as number:
                item.emit(number)


class _Item:
    """What is done for some rows of the result."""

    def __init__(self, instruction: Instruction, tiling: LineTiling, b: ir.IRBuilder, pointers: Sequence[ir.Value]):
        self.instruction, self.dtype, self.tiling, self.b = instruction, instruction.shape.dtype, tiling, b
        self.operand, self.source, self.initial, self.output = pointers
        # which of a window's elements is selected, as wide as what is compared: vectors of both have as many lanes
        self.number = ir.IntType(min(64, max(8 * self.dtype.bytes, 32 if self.dtype.is_float else 8)))
        self.chosen = allocate(b, self.number, tiling.lanes)
        self.kept = allocate(b, bits_type(self.dtype), tiling.kept) if tiling.is_along else None

    def emit(self, number: ir.Value) -> None:
        """The rows that are those of this item, of all windows that reach into them."""
        b, tiling, row = self.b, self.tiling, self.tiling.row
        piece, number = b.urem(number, I64(tiling.pieces)), b.udiv(number, I64(tiling.pieces))
        block, batch = b.urem(number, I64(tiling.blocks)), b.udiv(number, I64(tiling.blocks))
        begin = times(b, block, tiling.rows)
        end = least(b, plus(b, begin, tiling.rows), I64(row.size))
        lane = times(b, piece, tiling.lanes)
        lanes = (
            least(b, b.sub(I64(tiling.line.count), lane), I64(tiling.lanes)) if tiling.pieces > 1 else I64(tiling.lanes)
        )
        start = plus(b, times(b, batch, row.size * row.stride), lane)
        counts = math.prod(a.count for a in (*tiling.inner, tiling.line))
        first = plus(b, times(b, batch, row.count * counts), lane)
        self._fill(start, begin, end, lanes)
        # the windows whose last row is not before these, and whose first row is not behind
        w = row.window
        low, high = (
            b.udiv(greatest(b, plus(b, n, w.padding_low + w.stride + more), I64(0)), I64(w.stride))
            for n, more in ((begin, -w.size), (end, -1))
        )
        with (
            loop(b, low, least(b, high, I64(row.count)), name="window") as window,
            loop(b, 0, math.prod(a.count for a in tiling.inner), name="line") as line,
        ):
            windows = [window, *coordinates(b, line, tiling.inner)]
            here = plus(b, start, self._offset(windows, [a.stride for a in (row, *tiling.inner)]))
            self._select(here, lanes)
            source = plus(b, first, plus(b, times(b, window, counts), times(b, line, tiling.line.count)))
            self._scatter(windows, begin, end, start, source, lanes)
        if tiling.is_along:
            self._put_in_order(start, begin, end)

    def _offset(self, windows: Sequence[ir.Value], strides: Sequence[int]) -> ir.Value:
        """Where the windows begin."""
        b, out = self.b, I64(0)
        for window, axis, stride in zip(windows, (self.tiling.row, *self.tiling.inner), strides, strict=True):
            out = plus(b, out, times(b, axis.position(window, I64(0), b), stride))
        return out

    def _fill(self, start: ir.Value, begin: ir.Value, end: ir.Value, lanes: ir.Value) -> None:
        """The initial value, in all elements of the result."""
        b, tiling = self.b, self.tiling
        initial = load(b, self.initial, self.dtype, I64(0))
        if self.kept:
            with loop(b, 0, tiling.kept) as i:
                store(b, self.kept, self.dtype, i, initial)
            return
        row = tiling.row.stride // tiling.line.size
        with (
            loop(b, times(b, begin, row), times(b, end, row)) as i,
            loop(b, 0, lanes, name="lane", hints=hints_for(tiling.lanes)) as lane,
        ):
            index = plus(b, plus(b, start, times(b, i, tiling.line.size)), lane)
            store(b, self.output, self.dtype, index, initial)

    def _select(self, start: ir.Value, lanes: ir.Value) -> None:
        """Which elements are those that no later one of their window is selected over."""
        b, tiling = self.b, self.tiling
        axes = (tiling.row, *tiling.inner, tiling.line)
        offsets = [
            sum(p * a.stride for p, a in zip(element, axes, strict=True))
            for element in itertools.product(*(range(a.window.size) for a in axes))
        ]
        shift = -tiling.line.window.padding_low
        with loop(b, 0, lanes, name="lane", hints=hints_for(tiling.lanes)) as lane:
            here = plus(b, plus(b, start, shift), times(b, lane, tiling.stride))
            best, chosen = load(b, self.operand, self.dtype, here), self.number(0)
            for k, offset in enumerate(offsets[1:], 1):
                value = load(b, self.operand, self.dtype, plus(b, here, offset))
                kept = apply(b, self.instruction["select"], [best, value])[0]
                best, chosen = choose(b, kept, best, value), b.select(kept, chosen, self.number(k))
            write(b, self.chosen, lane, chosen)

    def _scatter(
        self,
        windows: Sequence[ir.Value],
        begin: ir.Value,
        end: ir.Value,
        start: ir.Value,
        source: ir.Value,
        lanes: ir.Value,
    ) -> None:
        """What was selected in those of the windows' rows that are rows of this item."""
        b, tiling = self.b, self.tiling
        top = tiling.row.position(windows[0], I64(0), b)
        low, high = greatest(b, b.sub(begin, top), I64(0)), least(b, b.sub(end, top), I64(tiling.row.window.size))
        size = tiling.row.window.size
        if tiling.is_along:
            with loop(b, low, high, name="row") as row:
                self._scatter_windows(windows, row, begin, source, lanes)
            return
        with b.if_else(b.icmp_signed("==", b.sub(high, low), I64(size))) as (all_rows, some):
            with all_rows:
                self._scatter_elements(windows, I64(0), size, start, source, lanes)
            with some, loop(b, low, high, name="row") as row:
                self._scatter_elements(windows, row, 1, start, source, lanes)

    def _scatter_elements(
        self,
        windows: Sequence[ir.Value],
        row: ir.Value,
        rows: int,
        start: ir.Value,
        source: ir.Value,
        lanes: ir.Value,
    ) -> None:
        """To rows of windows that each are a line."""
        b, tiling = self.b, self.tiling
        axes = (tiling.row, *tiling.inner)
        here = plus(b, start, self._offset(windows, [a.stride for a in axes]))
        here = plus(b, here, times(b, row, tiling.row.stride))
        sizes = (rows, *(a.window.size for a in tiling.inner))
        with loop(b, 0, lanes, name="lane", hints=hints_for(tiling.lanes)) as lane:
            for k, element in enumerate(itertools.product(*map(range, sizes))):
                offset = sum(p * a.stride for p, a in zip(element, axes, strict=True))
                target = plus(b, plus(b, here, offset), lane)
                number = plus(b, times(b, row, tiling.elements_per_row), k)
                self._put(self.output, target, lane, number, plus(b, source, lane))

    def _scatter_windows(
        self, windows: Sequence[ir.Value], row: ir.Value, begin: ir.Value, source: ir.Value, lanes: ir.Value
    ) -> None:
        """To a row of a line of windows, whose last elements go first: an element's windows then come in order."""
        b, tiling = self.b, self.tiling
        strides = [a.stride // tiling.line.size for a in (tiling.row, *tiling.inner)]
        here = plus(b, self._offset(windows, strides), times(b, b.sub(row, begin), strides[0]))
        with loop(b, 0, tiling.elements_per_row, name="place") as n:
            number = b.sub(I64(tiling.elements_per_row - 1), n)
            *coordinates, last = parts(b, number, [a.window.size for a in (*tiling.inner, tiling.line)])
            there = here
            for coordinate, stride in zip(coordinates, strides[1:], strict=True):
                there = plus(b, there, times(b, coordinate, stride))
            last = plus(b, last, -tiling.line.window.padding_low)
            there = plus(b, times(b, there, tiling.stride), b.urem(last, I64(tiling.stride)))
            there = plus(b, times(b, there, tiling.residues), b.udiv(last, I64(tiling.stride)))
            number = plus(b, times(b, row, tiling.elements_per_row), number)
            with loop(b, 0, lanes, name="lane", hints=hints_for(tiling.lanes)) as lane:
                self._put(self.kept, plus(b, there, lane), lane, number, plus(b, source, lane))

    def _put(self, array: ir.Value, target: ir.Value, lane: ir.Value, number: ir.Value, source: ir.Value) -> None:
        """Combines an element of the result with the window's of that lane, if it is the one selected."""
        b, dtype = self.b, self.dtype
        chosen = read(b, self.chosen, self.number, lane)
        old = load(b, array, dtype, target)
        elements = [old, load(b, self.source, dtype, source)]
        new = apply_promoted(b, self.instruction["scatter"], elements, [dtype] * 2, [dtype])[0]
        narrowed = number if self.number.width == 64 else b.trunc(number, self.number)
        store(b, array, dtype, target, choose(b, b.icmp_signed("==", chosen, narrowed), new, old))

    def _put_in_order(self, start: ir.Value, begin: ir.Value, end: ir.Value) -> None:
        """Lines of the result, of what lies at whole steps."""
        b, tiling, stride = self.b, self.tiling, self.tiling.stride
        row = tiling.row.stride // tiling.line.size
        whole, left = divmod(tiling.line.size, stride)
        with loop(b, 0, times(b, b.sub(end, begin), row)) as i:
            source = times(b, i, tiling.residues * stride)
            target = plus(b, start, times(b, plus(b, times(b, begin, row), i), tiling.line.size))

            def put(residue: int, n: ir.Value) -> None:
                here, there = (
                    plus(b, plus(b, source, residue * tiling.residues), n),
                    plus(b, target, times(b, n, stride)),
                )
                move(b, self.kept, here, self.output, plus(b, there, residue), self.dtype)

            with loop(b, 0, whole, hints=hints_for(whole)) as n:
                for residue in range(stride):
                    put(residue, n)
            for residue in range(left):
                put(residue, I64(whole))
