"""Windows reduced one by one, any form. The inner loop goes along the last dimension, so that it is vector code.

Windows that lie in the array as a whole are reduced in registers, if they are small; others an element of the window at
a time, with the state in the output.
"""

from __future__ import annotations

import itertools
import math

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.window.axes import WindowAxis
from xloom.cpu.kernels.window.reducer import Reducer
from xloom.cpu.kernels.window.window_loops import coordinates, each_element, without_gaps
from xloom.llvm.loop import loop
from xloom.llvm.noalias import distinct
from xloom.llvm.routine import function, greatest, least, optimize_for_size
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I1, I64, POINTER

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
            distinct(phase.b, pointers, [phase.begin, phase.end]) as (b, pointers, bounds),
            loop(b, bounds[0], bounds[1], name="item") as item,
        ):
            row, block = b.udiv(item, I64(blocks)), b.urem(item, I64(blocks))
            begin = times(b, block, _BLOCK)
            end = least(b, plus(b, begin, _BLOCK), I64(last.count))
            windows = coordinates(b, row, outer)
            common = [*pointers, *windows, times(b, row, last.count)]
            first, stop = begin, end
            if in_registers and one_by_one is not None:
                first, stop = _whole(b, outer, last, windows, begin, end)
                with b.if_then(b.icmp_signed("<", begin, first)):
                    b.call(one_by_one, [*common, begin, first])
            if in_registers:
                with loop(b, first, stop, name="window") as i:
                    _in_registers(b, reducer, axes, pointers, [*windows, i], plus(b, common[-1], i))
                begin = stop
            if one_by_one is not None:
                with b.if_then(b.icmp_signed("<", begin, end)):
                    b.call(one_by_one, [*common, begin, end])


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


def _in_registers(
    b: ir.IRBuilder,
    reducer: Reducer,
    axes: list[WindowAxis],
    pointers: list[ir.Value],
    windows: list[ir.Value],
    target: ir.Value,
) -> None:
    start = I64(0)
    for axis, window in zip(axes, windows, strict=True):
        start = plus(b, start, times(b, window, axis.window.stride * axis.stride))
    state = reducer.initial(b, pointers)
    for offset in itertools.product(*(_offsets(a) for a in axes)):
        state = reducer.accumulate(b, state, reducer.elements(b, pointers, plus(b, start, sum(offset))))
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
