"""Windows reduced one by one, any form. The inner loop goes along the last dimension, so that it is vector code.

Windows that lie in the array as a whole are reduced in registers, if they are small; others an element of the window at
a time, with the state in the output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.window.axes import WindowAxis
from xloom.cpu.kernels.window.reducer import Reducer
from xloom.cpu.kernels.window.window_loops import coordinates, each_element, without_gaps
from xloom.llvm.loop import loop
from xloom.llvm.routine import function, greatest, least, optimize_for_size
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import I1, I64, POINTER, i64

_BLOCK = 2048
"""Windows along the last dimension that are an item."""
_UNROLLED = 32
"""The most instructions that a window reduced in registers may have."""
_TASK = 60_000
"""Elements reduced in about 20 µs."""


def reduce_each_window(kernel: Kernel, reducer: Reducer, axes: list[WindowAxis]) -> None:
    """Emits the phase that reduces all windows."""
    *outer, last = axes
    window_size = math.prod(a.window.size for a in axes)
    small = window_size * max(1, len(reducer.body) - 2) <= _UNROLLED
    in_registers = small and all(a.window.base_dilation == 1 for a in axes)
    blocks = -(-last.count // _BLOCK)
    items = blocks * math.prod(a.count for a in outer)
    all_whole = in_registers and all(a.whole_windows == (0, a.count) for a in axes)
    with kernel.phase(items, max(1, _TASK // (window_size * min(last.count, _BLOCK)))) as phase:
        one_by_one = None
        if not all_whole:
            one_by_one = _one_by_one(phase.b.module, reducer, outer, last, small=in_registers and last.is_plain)
        pointers = reducer.pointers(phase)
        with (
            phase.distinct(pointers) as (b, pointers, bounds),
            _items(b, bounds, outer, blocks) as (row, windows, block),
        ):
            begin, end = times(b, block, _BLOCK), i64(last.count)
            if blocks != 1:
                end = least(b, plus(b, begin, _BLOCK), end)
            common = [*pointers, *windows, times(b, row, last.count)]
            first, stop = begin, end
            if in_registers and one_by_one is not None:
                first, stop = _whole(b, outer, last, windows, begin, end)
                with b.if_then(b.icmp_signed("<", begin, first)):
                    b.call(one_by_one, [*common, begin, first])
            if in_registers:
                starts = _starts(b, axes, windows)
                with loop(b, first, stop, name="window") as i:
                    _in_registers(b, reducer, last, pointers, starts, i, plus(b, common[-1], i))
                begin = stop
            if one_by_one is not None:
                with b.if_then(b.icmp_signed("<", begin, end)):
                    b.call(one_by_one, [*common, begin, end])


@contextmanager
def _items(
    b: ir.IRBuilder, bounds: Sequence[ir.Value], outer: list[WindowAxis], blocks: int
) -> Iterator[tuple[ir.Value, list[ir.Value], ir.Value]]:
    """Each item: its row's number, that of the windows along each axis but the last, and which block it is."""
    if blocks != 1 or not outer:
        with loop(b, *bounds, name="item") as item:
            row = b.udiv(item, i64(blocks))
            yield row, coordinates(b, row, outer), b.urem(item, i64(blocks))
        return
    (begin, end), size = bounds, i64(outer[-1].count)  # a division for each window could take as long as that
    lines = b.udiv(b.sub(plus(b, end, size), I64(1)), size)
    with loop(b, b.udiv(begin, size), lines, name="line") as line:
        first = b.mul(line, size)
        around = coordinates(b, line, outer[:-1])
        low, high = greatest(b, b.sub(begin, first), I64(0)), least(b, b.sub(end, first), size)
        with loop(b, low, high, name="item") as window:
            yield plus(b, first, window), [*around, window], I64(0)


def _whole(
    b: ir.IRBuilder, outer: list[WindowAxis], last: WindowAxis, windows: list[ir.Value], begin: ir.Value, end: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The windows of [begin, end) that lie in the array with all their elements."""
    inside = I1(1)
    for axis, window in zip(outer, windows, strict=True):
        low, high = axis.whole_windows
        if (low, high) != (0, axis.count):
            inside = b.and_(inside, b.icmp_signed(">=", window, I64(low)))
            inside = b.and_(inside, b.icmp_signed("<", window, I64(high)))
    low, high = (least(b, greatest(b, I64(n), begin), end) for n in last.whole_windows)
    return b.select(inside, low, end), b.select(inside, high, end)


def _starts(b: ir.IRBuilder, axes: list[WindowAxis], windows: list[ir.Value]) -> list[tuple[ir.Value, int]]:
    """Where the elements of the first window along the last axis lie, in order: from a value, and a number further."""
    start = I64(0)
    for axis, window in zip(axes, windows, strict=False):
        start = plus(b, start, times(b, window, axis.window.stride * axis.stride))
    values: dict[int, ir.Value] = {}
    found = []
    for offset in itertools.product(*(_offsets(a) for a in axes)):
        far: int | SymbolicDimension = sum(n for n in offset if not isinstance(n, int))
        if id(far) not in values:
            values[id(far)] = plus(b, start, far)
        found.append((values[id(far)], sum(n for n in offset if isinstance(n, int))))
    return found


def _in_registers(
    b: ir.IRBuilder,
    reducer: Reducer,
    last: WindowAxis,
    pointers: list[ir.Value],
    starts: list[tuple[ir.Value, int]],
    window: ir.Value,
    target: ir.Value,
) -> None:
    further = times(b, window, last.window.stride * last.stride)
    state = reducer.initial(b, pointers)
    for start, offset in starts:
        state = reducer.accumulate(b, state, reducer.elements(b, pointers, plus(b, plus(b, start, further), offset)))
    reducer.keep(b, pointers, target, state)


def _offsets(axis: WindowAxis) -> list[int]:
    """How far the elements of a window lie from where it begins without padding, in order."""
    w = axis.window
    order = reversed(range(w.size)) if w.window_reversal else range(w.size)
    return [(p * w.window_dilation - w.padding_low) * axis.stride for p in order]


def _one_by_one(
    module: ir.Module, reducer: Reducer, outer: list[WindowAxis], last: WindowAxis, small: bool
) -> ir.Function:
    """`one_by_one(pointers..., windows..., target, begin, end)`: windows [begin, end) of the last axis."""
    count = 3 * reducer.count
    kinds = [*[POINTER] * count, *[I64] * (len(outer) + 3)]
    with function(module, "one_by_one", kinds, distinct=range(count)) as (b, out):
        pointers, windows, (target, begin, end) = out.args[:count], out.args[count:-3], out.args[-3:]
        if small:
            optimize_for_size(b)
        state = reducer.initial(b, pointers)
        with loop(b, begin, end) as i:
            reducer.keep(b, pointers, plus(b, target, i), state)
        with each_element(b, outer, windows) as start, loop(b, 0, last.window.size, name="place") as element:
            if last.window.window_reversal:
                element = b.sub(I64(last.window.size - 1), element)
            low, high = last.windows_inside(element, b)
            with (
                loop(b, greatest(b, low, begin), least(b, high, end), name="window") as i,
                without_gaps(b, last, last.position(i, element, b)) as position,
            ):
                here = plus(b, target, i)
                elements = reducer.elements(b, pointers, plus(b, start, position))
                reducer.keep(b, pointers, here, reducer.accumulate(b, reducer.state(b, pointers, here), elements))
    return out
