"""Cumulative reductions in linear time: each window is the one before and one more element.

Long reductions are of runs, which are reduced after one another: errors grow less, and runs of a row go side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.window.associative_operator import LANES, AssociativeOperator
from xloom.cpu.kernels.window.axes import WindowAxis
from xloom.cpu.kernels.window.reducer import Reducer
from xloom.cpu.kernels.window.vector_scan import scan
from xloom.llvm.loop import loop
from xloom.llvm.noalias import distinct
from xloom.llvm.routine import least
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I64, Value

_FEW_COLUMNS = 16
"""So few that what each has come to stays in a register, as the next row would wait for memory."""
_COLUMNS = 128
"""Adjacent reductions that are an item, and go an element of each at a time."""
_SHORT = 64
"""Elements up to which a computation that may not be associative is reduced as it is written."""
_RUN = 512
"""Elements reduced one after another in longer rows, and then after the runs before: errors grow with that number."""
_TASK = 20_000
"""Elements reduced in about 20 µs."""


def is_cumulative(reducer: Reducer, axes: list[WindowAxis]) -> bool:
    """True when one axis has windows, which all begin, or all end, at one end of it."""
    found = [a for a in axes if not a.is_plain]
    if len(found) != 1:
        return False
    (axis,) = found
    w = axis.window
    grows = w.size >= axis.size and (w.padding_low, w.padding_high) in ((w.size - 1, 0), (0, w.size - 1))
    if not grows or (w.stride, w.window_dilation, w.base_dilation, w.window_reversal) != (1, 1, 1, False):
        return False
    # from the end, elements are reduced in the other order, which XLA allows itself of every computation
    return _is_forward(axis) or AssociativeOperator.of(reducer) is not None or axis.size > _SHORT


def _is_forward(axis: WindowAxis) -> bool:
    return axis.window.padding_high == 0


def reduce_cumulatively(kernel: Kernel, reducer: Reducer, axes: list[WindowAxis]) -> None:
    """Emits the phase for windows that are cumulative."""
    number = next(k for k, a in enumerate(axes) if not a.is_plain)
    axis = axes[number]
    rows = math.prod(a.size for a in axes[:number])
    vector = AssociativeOperator.of(reducer, LANES) if axis.stride == 1 else None
    blocks = -(-axis.stride // _COLUMNS)
    with (
        kernel.phase(rows * blocks, max(1, _TASK // (axis.size * min(axis.stride, _COLUMNS)))) as phase,
        distinct(phase.b, reducer.pointers(phase), [phase.begin, phase.end]) as (b, pointers, bounds),
        loop(b, bounds[0], bounds[1], name="item") as item,
    ):
        start = times(b, b.udiv(item, I64(blocks)), axis.size * axis.stride)
        if vector:
            scan(b, vector, pointers, start, axis.size, forward=_is_forward(axis))
        elif axis.stride == 1 and axis.size >= 2 * _RUN and reducer.inputs == reducer.states:
            _runs(b, reducer, pointers, axis, start)
        else:
            begin = times(b, b.urem(item, I64(blocks)), _COLUMNS)
            columns = least(b, I64(axis.stride), plus(b, begin, _COLUMNS))
            _columns(b, reducer, pointers, axis, start, (begin, columns))


def _columns(
    b: ir.IRBuilder,
    reducer: Reducer,
    pointers: list[ir.Value],
    axis: WindowAxis,
    start: ir.Value,
    columns: tuple[ir.Value, ir.Value],
) -> None:
    """An element of each column at a time, after the state that the last one left in the output."""
    forward = _is_forward(axis)
    last = plus(b, start, (axis.size - 1) * axis.stride)

    def row(number: ir.Value) -> ir.Value:
        step = times(b, number, axis.stride)
        return plus(b, start, step) if forward else b.sub(last, step)

    def put(here: ir.Value, state: Sequence[Value], elements: Sequence[Value]) -> list[Value]:
        return _put(b, reducer, pointers, here, state, elements, forward)

    def steps_of_few(begin: ir.Value, end: ir.Value) -> None:
        kept = reducer.in_registers(b, pointers, axis.stride)
        before = row(plus(b, begin, -1))
        for column in range(axis.stride):
            reducer.keep(b, kept, I64(column), reducer.state(b, pointers, plus(b, before, column)))
        with loop(b, begin, end) as i:
            first = row(i)
            for column in range(axis.stride):
                here = plus(b, first, column)
                state = put(here, reducer.state(b, kept, I64(column)), reducer.elements(b, pointers, here))
                reducer.keep(b, kept, I64(column), state)

    def steps(begin: ir.Value, end: ir.Value) -> None:
        if axis.stride <= _FEW_COLUMNS:
            steps_of_few(begin, end)
            return
        with loop(b, begin, end) as i, loop(b, *columns, name="column") as column:
            here = plus(b, row(i), column)
            before = plus(b, here, -axis.stride if forward else axis.stride)
            put(here, reducer.state(b, pointers, before), reducer.elements(b, pointers, here))

    run = _RUN if axis.size >= 2 * _RUN and reducer.inputs == reducer.states else axis.size
    initial = reducer.initial(b, pointers)
    with loop(b, *columns, name="column") as column:
        here = plus(b, row(I64(0)), column)
        put(here, initial, reducer.elements(b, pointers, here))
    steps(I64(1), I64(run))
    if run == axis.size:
        return
    with loop(b, run, axis.size, run, name="run") as begin:
        end = least(b, plus(b, begin, run), I64(axis.size))
        with loop(b, *columns, name="column") as column:
            here = plus(b, row(begin), column)
            reducer.keep(b, pointers, here, reducer.elements(b, pointers, here))
        steps(plus(b, begin, 1), end)
        with loop(b, begin, end) as i, loop(b, *columns, name="column") as column:
            here, before = plus(b, row(i), column), plus(b, row(plus(b, begin, -1)), column)
            put(here, reducer.state(b, pointers, before), reducer.state(b, pointers, here))


def _runs(b: ir.IRBuilder, reducer: Reducer, pointers: list[ir.Value], axis: WindowAxis, start: ir.Value) -> None:
    """Equal runs of a row, which LLVM takes side by side; then each after the one before, and last what is left."""
    forward, length = _is_forward(axis), min(_RUN, axis.size // LANES)
    count = axis.size // length
    last = plus(b, start, axis.size - 1)

    def index_of(number: ir.Value) -> ir.Value:
        return plus(b, start, number) if forward else b.sub(last, number)

    def after(number: ir.Value, before: ir.Value) -> None:
        here, state = index_of(number), reducer.state(b, pointers, index_of(before))
        _put(b, reducer, pointers, here, state, reducer.elements(b, pointers, here), forward)

    first = index_of(I64(0))
    _put(b, reducer, pointers, first, reducer.initial(b, pointers), reducer.elements(b, pointers, first), forward)
    with loop(b, 1, count, name="run") as run:
        here = index_of(times(b, run, length))
        reducer.keep(b, pointers, here, reducer.elements(b, pointers, here))
    with loop(b, 1, length) as i, loop(b, 0, count, name="run") as run:
        number = plus(b, times(b, run, length), i)
        after(number, plus(b, number, -1))
    with loop(b, 1, count, name="run") as run:
        begin = times(b, run, length)
        state = reducer.state(b, pointers, index_of(plus(b, begin, -1)))
        with loop(b, 0, length) as i:
            here = index_of(plus(b, begin, i))
            _put(b, reducer, pointers, here, state, reducer.state(b, pointers, here), forward)
    with loop(b, count * length, axis.size) as i:
        after(i, plus(b, i, -1))


def _put(
    b: ir.IRBuilder,
    reducer: Reducer,
    pointers: list[ir.Value],
    index: ir.Value,
    state: Sequence[Value],
    following: Sequence[Value],
    forward: bool,
) -> list[Value]:
    state = reducer.accumulate(b, state, following) if forward else reducer.accumulate_reversed(b, following, state)
    reducer.keep(b, pointers, index, state)
    return state
