"""Windows of an associative operator that overlap: what neighbours have in common is reduced once.

One axis after another, in few operations per element. The partial reductions of 2, 4, 8 ... adjacent elements take one
operation from the ones before; those that add up to the window make its reduction. Where windows lie an even number of
elements apart, every other one of two is enough, and so on. Axes before, if their windows are small, are reduced while
elements are read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.window.associative_operator import LANES, AssociativeOperator
from xloom.cpu.kernels.window.axes import WindowAxis, axes_of
from xloom.cpu.kernels.window.reducer import Reducer
from xloom.cpu.kernels.window.window_loops import coordinates
from xloom.hlo.attributes import WindowDimension
from xloom.llvm.loop import PLAIN, VECTOR_ONLY, allocate, hints_for, loop
from xloom.llvm.routine import greatest, least, read, write
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.target import Target
from xloom.llvm.types import I1, I64, memory_type

_OVERLAP = 16
"""In how many windows an element is, at the least, for any to pay."""
_LARGE = 32
"""Operations of a window from which on reducing each on its own takes longer."""
_LINE = 64
"""Bytes that processors load at once."""
_STACK = 1 << 20
"""Bytes of the partial reductions that are kept at a time, at most. Of small windows they stay in the first cache."""
_TOGETHER = 16
"""Elements that are reduced while they are read, at the most."""
_STRIP = 256
"""Bytes of adjacent elements that are read at a time, at the least."""
_NARROWER = 128
"""Windows larger than that have less of them: it is much from all rows of one."""
_TASK = 40_000
"""Elements reduced in about 20 µs."""


def why_apart(reducer: Reducer, axes: list[WindowAxis], target: Target) -> str:
    """Why windows cannot share what they have in common, or why each on its own takes less; empty where they do."""
    operator = AssociativeOperator.of(reducer)
    windows = [a.window for a in axes]
    dense = all(w.base_dilation == 1 and w.window_dilation == 1 and w.stride <= w.size for w in windows)
    elements = math.prod(a.size for a in axes)
    if not operator:
        return "the computation is no operator that may be done in any order"
    if not dense:
        return "windows are dilated, or do not touch"
    if not elements:
        return "there are no elements"
    passes = [_Pass(operator, group, target) for group in _groups(axes)]
    if not passes:
        return "each window is an element"
    if any(p.nbytes > _STACK for p in passes):
        return f"what they share takes more than {_STACK} bytes of the stack"
    if len(axes) > 1 and not axes[-1].is_plain and any(not a.is_plain for a in axes[:-1]):
        return ""  # columns are no vectors: rows are reduced as vectors first
    if passes[-1].halvings and axes[-1].window.stride * operator.dtype.bytes >= _LINE:
        return ""  # elements at the same place of windows are no vectors
    elements_met = math.prod(a.window.size * a.count for a in axes)
    operations = math.prod(w.size for w in windows) * operator.cost
    if elements_met >= _OVERLAP * elements or operations >= _LARGE:
        return ""
    return f"windows meet an element {elements_met / elements:.1f} times, which is fewer than {_OVERLAP}, and are small"


def reduce_by_axis(kernel: Kernel, reducer: Reducer, axes: list[WindowAxis]) -> None:
    """Emits a phase for each axis, or for each few of small windows."""
    operator = AssociativeOperator.of(reducer)
    assert operator is not None
    passes = [_Pass(operator, group, kernel.target) for group in _groups(axes)]
    source = _operand
    for k, window_pass in enumerate(passes):
        # from where all later passes can go on in place, that place is the output
        target = _output
        if not all(later.is_in_place for later in passes[k + 1 :]):
            target = _scratch(kernel.add_scratch(window_pass.count * operator.dtype.bytes))
        window_pass.emit(kernel, source, target, final=window_pass is passes[-1])
        source = target


Pointer = Callable[[PhaseBuilder], ir.Value]


def _operand(phase: PhaseBuilder) -> ir.Value:
    return phase.operand(0)


def _output(phase: PhaseBuilder) -> ir.Value:
    return phase.output(0)


def _scratch(number: int) -> Pointer:
    return lambda phase: phase.scratch(number)


def _groups(axes: list[WindowAxis]) -> Iterator[list[WindowAxis]]:
    """The axes of each pass, of which those that others reduce have no windows any more, or not yet."""
    sizes, todo = [a.size for a in axes], [k for k, a in enumerate(axes) if not a.is_plain]
    while todo:
        group = [todo.pop(0)]
        while todo and math.prod(axes[k].window.size for k in group) <= _TOGETHER:
            group.append(todo.pop(0))
        yield axes_of(sizes, [a.window if k in group else WindowDimension(1) for k, a in enumerate(axes)])
        for k in group:
            sizes[k] = axes[k].count


class _Pass:
    """Windows along one axis, which has `columns` behind it, and of those before it."""

    def __init__(self, operator: AssociativeOperator, axes: list[WindowAxis], target: Target):
        self.operator = operator
        number = max(k for k, a in enumerate(axes) if not a.is_plain)
        self.outer, self.axis = axes[:number], axes[number]
        self.rows, self.columns = math.prod(a.count for a in self.outer), self.axis.stride
        w = self.axis.window
        self.size, self.stride, self.halvings = w.size, w.stride, 0
        while self.columns == 1 and self.size > 2 and self.size % 2 == self.stride % 2 == 0:
            self.size, self.stride, self.halvings = self.size // 2, self.stride // 2, self.halvings + 1
        block = target.caches.first // (operator.dtype.bytes * self._levels)
        strip = _STRIP // operator.dtype.bytes if w.size <= _NARROWER else LANES
        self.width = min(self.columns, max(strip, block // (4 * w.size) // LANES * LANES))
        windows = max(w.size, block // self.width) // w.stride + 1
        pieces = -(-self.axis.count // windows)
        self.windows = -(-self.axis.count // pieces)
        self.length = (self.windows - 1) * w.stride + w.size
        self.pieces = -(-self.columns // self.width), -(-self.axis.count // self.windows)

    @property
    def count(self) -> int:
        """Elements that the pass makes."""
        return self.rows * self.axis.count * self.columns

    @property
    def nbytes(self) -> int:
        """Bytes of the partial reductions that it keeps."""
        kept = self._levels * (self.length >> self.halvings) + (2 * self.length if self.halvings else 0)
        return kept * self.width * self.operator.dtype.bytes

    @property
    def is_in_place(self) -> bool:
        """True when an item reads all that lies where it writes, before it does so, and others do not."""
        same = self.axis.count == self.axis.size and self.pieces[1] == 1
        return same and all(a.is_plain for a in self.outer)

    @property
    def _levels(self) -> int:
        """How many kinds of partial reductions are kept, of 1, 2, 4 ... elements."""
        return max(1, self.size.bit_length() - 1)

    @property
    def _window_size(self) -> int:
        """Elements of a window that are reduced while they are read."""
        return math.prod(a.window.size for a in self.outer)

    def emit(self, kernel: Kernel, source: Pointer, target: Pointer, final: bool) -> None:
        """The phase, from one array to another."""
        pieces = math.prod(self.pieces)
        elements = self.length * self.width
        with kernel.phase(self.rows * pieces, max(1, _TASK // (elements * self._window_size))) as phase:
            b, operator = phase.b, self.operator
            arrays = source(phase), target(phase)
            initial = operator.splat(b, phase.operand(1), I64(0)) if final else None
            sizes = [elements >> k for k in range(self.halvings)] + [elements >> self.halvings] * self._levels
            kept = [allocate(b, operator.element, size) for size in sizes]
            for array in kept:
                array.align = 64
            outside = self._outside(b, elements)
            with loop(b, phase.begin, phase.end, name="item") as item:
                row, piece = b.udiv(item, I64(pieces)), b.urem(item, I64(pieces))
                column = times(b, b.urem(piece, I64(self.pieces[0])), self.width)
                window = times(b, b.udiv(piece, I64(self.pieces[0])), self.windows)
                columns = least(b, b.sub(I64(self.columns), column), I64(self.width))
                self._read(b, arrays[0], outside, row, column, window, columns, kept[0])
                self._halve(b, kept[: self.halvings + 1])
                partials = kept[self.halvings :]
                self._double(b, partials)
                index = plus(b, times(b, plus(b, times(b, row, self.axis.count), window), self.columns), column)
                self._write(b, partials, initial, arrays[1], index, window, columns)

    def _outside(self, b: ir.IRBuilder, elements: int) -> ir.Value | None:
        """Elements that are read where a window reaches out of an axis before."""
        if all(a.whole_windows == (0, a.count) for a in self.outer):
            return None
        outside = allocate(b, memory_type(self.operator.dtype), elements)
        with loop(b, 0, elements, hints=VECTOR_ONLY) as i:
            self.operator.store(b, outside, i, self.operator.identity_value)
        return outside

    def _read(
        self,
        b: ir.IRBuilder,
        source: ir.Value,
        outside: ir.Value | None,
        row: ir.Value,
        column: ir.Value,
        window: ir.Value,
        columns: ir.Value,
        partials: ir.Value,
    ) -> None:
        """The elements of the windows, reduced over the axes before, and identity values around them."""
        w, length, width = self.axis.window, I64(self.length), self.width
        first = plus(b, times(b, window, w.stride), -w.padding_low)
        low = least(b, greatest(b, b.neg(first), I64(0)), length)
        high = greatest(b, low, least(b, b.sub(I64(self.axis.size), first), length))
        start = plus(b, times(b, plus(b, first, low), self.columns), column)
        lines = self._lines(b, source, outside, row, start)
        for begin, end in ((I64(0), low), (high, length)):
            with loop(b, times(b, begin, width), times(b, end, width), hints=PLAIN) as i:
                write(b, partials, i, self.operator.identity_value)
        with self._each(b, b.sub(high, low), columns) as (position, c):
            here = plus(b, times(b, position, self.columns), c)
            elements = [self.operator.load(b, line, here) for line in lines]
            write(b, partials, plus(b, times(b, plus(b, low, position), width), c), self._reduced(b, elements))

    def _lines(
        self, b: ir.IRBuilder, source: ir.Value, outside: ir.Value | None, row: ir.Value, start: ir.Value
    ) -> list[ir.Value]:
        """Where the lines are that are reduced while they are read."""
        windows, kind = coordinates(b, row, self.outer), memory_type(self.operator.dtype)
        lines = []
        for element in itertools.product(*(range(a.window.size) for a in self.outer)):
            here, inside = start, I1(1)
            for axis, window, p in zip(self.outer, windows, element, strict=True):
                position = axis.position(window, I64(p), b)
                here = plus(b, here, times(b, position, axis.stride))
                if axis.whole_windows != (0, axis.count):
                    inside = b.and_(inside, b.icmp_unsigned("<", position, I64(axis.size)))
            line = b.gep(source, [here], source_etype=kind)
            lines.append(line if outside is None else b.select(inside, line, outside))
        return lines

    def _reduced(self, b: ir.IRBuilder, elements: Sequence[ir.Value]) -> ir.Value:
        """Pairs, pairs of pairs and so on: few wait for others."""
        while len(elements) > 1:
            pairs = [self.operator.apply(b, x, y) for x, y in zip(elements[::2], elements[1::2], strict=False)]
            elements = [*pairs, *elements[2 * len(pairs) :]]
        return elements[0]

    def _halve(self, b: ir.IRBuilder, partials: Sequence[ir.Value]) -> None:
        """Pairs of elements as one, where windows begin and end with whole pairs."""
        kind = self.operator.element
        for level, (single, pairs) in enumerate(itertools.pairwise(partials), 1):
            with loop(b, 0, self.length >> level, hints=VECTOR_ONLY) as i:
                two = (read(b, single, kind, plus(b, times(b, i, 2), k)) for k in range(2))
                write(b, pairs, i, self.operator.apply(b, *two))

    def _double(self, b: ir.IRBuilder, partials: Sequence[ir.Value]) -> None:
        """The partial reductions of 2, 4, 8 ... elements, each of two before."""
        count = self.length >> self.halvings
        for level, (shorter, longer) in enumerate(itertools.pairwise(partials)):
            distance = 1 << level
            count -= distance
            with loop(b, 0, count * self.width, hints=VECTOR_ONLY) as i:
                write(b, longer, i, self._two(b, shorter, i, distance))

    def _two(self, b: ir.IRBuilder, partials: ir.Value, i: ir.Value, distance: int) -> ir.Value:
        """The reduction of two, of which one lies so many positions ahead."""
        kind = self.operator.element
        return self.operator.apply(
            b, read(b, partials, kind, i), read(b, partials, kind, plus(b, i, distance * self.width))
        )

    def _write(
        self,
        b: ir.IRBuilder,
        partials: Sequence[ir.Value],
        initial: ir.Value | None,
        target: ir.Value,
        index: ir.Value,
        window: ir.Value,
        columns: ir.Value,
    ) -> None:
        """The windows, each of the partial reductions that add up to it."""
        size, stride = self.size, self.stride * self.width
        count = least(b, b.sub(I64(self.axis.count), window), I64(self.windows))
        with self._each(b, count, columns, stride) as (position, c):
            i, parts, done = plus(b, times(b, position, stride), c), [initial] if initial else [], 0
            for level in range(size.bit_length()):
                length = 1 << level
                if size & length:
                    here = plus(b, i, done * self.width)
                    last = 2 * length > size and level
                    parts.append(
                        self._two(b, partials[level - 1], here, length // 2)
                        if last
                        else read(b, partials[level], self.operator.element, here)
                    )
                    done += length
            reduced = parts[0]
            for part in parts[1:]:
                reduced = self.operator.apply(b, reduced, part)
            self.operator.store(b, target, plus(b, index, plus(b, times(b, position, self.columns), c)), reduced)

    @contextmanager
    def _each(
        self, b: ir.IRBuilder, count: ir.Value, columns: ir.Value, stride: int | None = None
    ) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Goes over the columns of so many positions: of all in one loop, where they are adjacent."""
        if self.columns == 1:
            with loop(b, 0, count, hints=VECTOR_ONLY) as position:
                yield position, I64(0)
        elif self.width == self.columns and stride in (None, self.width):
            with loop(b, 0, times(b, count, self.width), hints=VECTOR_ONLY) as i:
                yield I64(0), i
        else:
            columns = I64(self.width) if self.columns % self.width == 0 else columns
            with loop(b, 0, count) as position, loop(b, 0, columns, name="column", hints=hints_for(self.width)) as c:
                yield position, c
