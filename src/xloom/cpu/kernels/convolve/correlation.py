"""Convolutions of one output feature a group with long windows: gradients of depthwise kernels.

An item is a vector of groups, or some: all their outputs are sums over the same elements of what is the kernel here,
each at its distance in a box of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.emit.loop import allocate
from xloom.cpu.emit.sizes import greatest, least
from xloom.cpu.emit.types import POINTER, element_pointer, i64
from xloom.cpu.kernel import Kernel
from xloom.cpu.kernels.convolve.geometry import Convolution
from xloom.cpu.kernels.convolve.lanes import BOX_BYTES, MOST_VECTORS, Box, Run, Side
from xloom.cpu.kernels.convolve.walk import Place, walk_window
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, rolled, share
from xloom.cpu.kernels.matmul.work import grain
from xloom.hlo.attributes import Window

_MOST_SUMS = 25
"""In registers at a time."""
_MOST_OUTPUTS = 128
_ITEMS = 3
"""At least, where there are so many vectors, before some are copied side by side."""


@dataclass(frozen=True)
class Correlation:
    """The boxes of both operands, of which the first dimension is cut into `steps` places of the window."""

    x: Box
    w: Box | None
    """None where its groups are adjacent, so that it is read where it lies."""
    steps: int
    outputs: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many outputs a group has."""
        return prod(self.outputs)


def correlation_of(
    arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any], x: Array, w: Array
) -> Correlation | None:
    """How to compute a convolution this way; None where another one is better."""
    group, lanes = problem.group, arithmetic.lanes
    if arithmetic.parts > 1 or not problem.taps or problem.output.size != 1 or group.size < lanes:
        return None
    last = problem.taps[-1]
    if any(d.base_dilation > 1 or d.window_reversal for d in window):
        return None
    if (group.a != 1 and last.a != 1) or (group.b != 1 and last.b != 1):
        return None
    outputs = [d.classes[0].count for d in problem.dims]
    if prod(outputs) > _MOST_OUTPUTS or prod(d.size for d in window) < prod(outputs):
        return None
    adjacent = group.a == group.b == 1
    total = -(-group.size // lanes)
    vectors = int(greatest(1, least(total // _ITEMS, MOST_VECTORS))) if adjacent else 1
    counts = tuple(int(n) for n in outputs)

    def lengths(taps: list[int]) -> list[int]:
        return [
            (n - 1) * d.window_dilation + (o - 1) * d.stride + 1 for n, d, o in zip(taps, window, counts, strict=True)
        ]

    taps = [d.size for d in window]
    line = prod(lengths(taps)[1:]) * vectors * lanes * arithmetic.dtype.bytes
    most = (BOX_BYTES // line - (counts[0] - 1) * window[0].stride - 1) // window[0].window_dilation + 1
    if most < 1:
        return None
    taps[0] = share(taps[0], most)
    sides = [Side(n, s, t.a) for n, s, t in zip(lengths(taps), sizes, problem.taps, strict=True)]
    other = [Side(n, d.size, t.b) for n, d, t in zip(taps, window, problem.taps, strict=True)]
    return Correlation(
        Box(arithmetic, x, tuple(sides), group.a, vectors),
        None if group.b == 1 else Box(arithmetic, w, tuple(other), group.b),
        taps[0],
        counts,
    )


def correlate(kernel: Kernel, plan: Correlation, problem: Convolution, window: Window, w: Array, y: Array) -> None:
    """One phase."""
    arithmetic, lanes, group = plan.x.arithmetic, plan.x.lanes, problem.group
    panels = -(-group.size // lanes)
    items = [Axis(problem.batch.size, 0, 0, 0), Axis(-(-panels // plan.x.vectors), 0, 0, 0)]
    cost = 2 * plan.total * count(problem.taps) * problem.feature.size * plan.x.vectors * lanes
    with kernel.phase(count(tuple(items)), grain(cost, arithmetic)) as phase:
        b = phase.b
        x, first_room, second_room = plan.x.source.pointer(phase), plan.x.memory(b), plan.w and plan.w.memory(b)
        totals = allocate(b, arithmetic.kind(lanes), plan.total * plan.x.vectors)
        totals.align, totals.type = 64, POINTER
        sums = Sums(b, Tile(arithmetic, share(plan.total, _MOST_SUMS), 1, lanes))
        with rolled(b, phase.begin, phase.end, name="groups") as item:
            image, run = digits(b, items, item)
            vector = b.mul(run, i64(plan.x.vectors))
            left = at_most(b, b.mul(vector, i64(lanes)), group.size - lanes)
            vectors = at_most(b, b.sub(i64(panels), vector), plan.x.vectors)
            starts = [
                b.add(i64(base), b.add(b.mul(image, i64(step)), b.mul(left, i64(across))))
                for base, step, across in (
                    (problem.x_base, problem.batch.a, group.a),
                    (problem.w_base, 0, group.b),
                    (0, problem.batch.c, group.c),
                )
            ]
            side_by_side = Run(x, starts[0], vectors, b.sub(i64(group.size - lanes), left))
            _clear(b, plan, totals)
            with (
                rolled(b, 0, problem.feature.size, name="feature") as feature,
                rolled(b, 0, window[0].size, plan.steps, name="step") as step,
            ):
                at = b.add(side_by_side.origin, b.mul(feature, i64(problem.feature.a)))
                places = [i64(-d.padding_low) for d in window]
                places[0] = b.add(places[0], b.mul(step, i64(window[0].window_dilation)))
                plan.x.fill(b, side_by_side._replace(origin=at), places, first_room)
                other = b.add(starts[1], b.mul(feature, i64(problem.feature.b)))
                source, strides = w.pointer(phase), [t.b for t in problem.taps]
                dtype = w.dtype
                if plan.w is not None and second_room is not None:
                    plan.w.fill(b, Run(source, other), [step, *(i64(0) for _ in window[1:])], second_room)
                    source, strides, other, dtype = second_room, plan.w.steps, i64(0), arithmetic.dtype
                else:
                    other = b.add(other, b.mul(step, i64(problem.taps[0].b)))
                size = at_most(b, b.sub(i64(window[0].size), step), plan.steps)
                with rolled(b, 0, vectors, name="vector") as number:
                    start = b.gep(
                        first_room,
                        [b.mul(number, i64(plan.x.size))],
                        inbounds=True,
                        source_etype=arithmetic.element,
                    )
                    met = element_pointer(b, source, dtype, b.add(other, side_by_side.left(b, number, lanes)))
                    loops = [
                        (n, [d.window_dilation * s, stride])
                        for n, d, s, stride in zip(
                            [size, *(d.size for d in window[1:])], window, plan.x.steps, strides, strict=True
                        )
                    ]
                    _add(b, plan, window, sums, (totals, number), loops, ((start, arithmetic.dtype), (met, dtype)))
            _store(b, plan, problem, (totals, side_by_side), (y, y.pointer(phase), starts[2]))


def _clear(b: ir.IRBuilder, plan: Correlation, totals: ir.Value) -> None:
    arithmetic, lanes = plan.x.arithmetic, plan.x.lanes
    with rolled(b, 0, plan.total * plan.x.vectors, name="total") as number:
        place = b.gep(totals, [number], inbounds=True, source_etype=arithmetic.kind(lanes))
        b.store(arithmetic.zero(lanes)[0], place)


def _add(
    b: ir.IRBuilder,
    plan: Correlation,
    window: Window,
    sums: Sums,
    totals: tuple[ir.Value, ir.Value],
    loops: list[Any],
    operands: tuple[tuple[ir.Value, Any], ...],
) -> None:
    """Adds the products of a box to the totals of a vector, some outputs after the other."""
    arithmetic, lanes, rows = plan.x.arithmetic, plan.x.lanes, sums.tile.rows
    kind = arithmetic.kind(lanes)
    memory, vector = totals
    (_, dtype), (_, other) = operands
    places = [Place(pointer, kind.bytes) for pointer, kind in operands]
    distances = [
        sum(o * d.stride * s for o, d, s in zip(output, window, plan.x.steps, strict=True))
        for output in product(*(range(n) for n in plan.outputs))
    ]
    for first in range(0, plan.total, rows):
        some = range(first, min(first + rows, plan.total))
        at = [b.add(b.mul(vector, i64(plan.total)), i64(k)) for k in some]
        cells = [b.gep(memory, [k], inbounds=True, source_etype=kind) for k in at]
        for k, cell in enumerate(cells):
            sums.set(b, k, 0, [b.load(cell, typ=kind)])

        def add(pointers: Sequence[ir.Value], some: range = some) -> None:
            here, kernel = pointers
            value = arithmetic.load(b, kernel, other, i64(0), lanes)
            for k, number in enumerate(some):
                met = arithmetic.load(b, here, dtype, i64(distances[number]), lanes)
                sums.set(b, k, 0, arithmetic.multiply_add(b, met, value, sums.get(b, k, 0)))

        walk_window(b, loops, places, add)
        for k, cell in enumerate(cells):
            b.store(sums.get(b, k, 0)[0], cell)


def _store(
    b: ir.IRBuilder,
    plan: Correlation,
    problem: Convolution,
    totals: tuple[ir.Value, Run],
    target: tuple[Array, ir.Value, ir.Value],
) -> None:
    """Writes the totals of all vectors, lane by lane."""
    arithmetic, lanes = plan.x.arithmetic, plan.x.lanes
    memory, run = totals
    array, pointer, first = target
    numbers = [Axis(n, 0, 0, t.c) for n, t in zip(plan.outputs, problem.taps, strict=True)]
    with rolled(b, 0, run.count, name="vector") as vector, rolled(b, 0, plan.total, name="total") as total:
        left = b.add(first, b.mul(run.left(b, vector, lanes), i64(problem.group.c)))
        for axis, digit in zip(numbers, digits(b, numbers, total), strict=True):
            left = b.add(left, b.mul(digit, i64(axis.c)))
        row = b.mul(b.add(b.mul(vector, i64(plan.total)), total), i64(lanes))
        with rolled(b, 0, lanes, name="lane") as lane:
            cell = b.gep(memory, [b.add(row, lane)], inbounds=True, source_etype=arithmetic.element)
            value = arithmetic.load(b, cell, arithmetic.dtype, i64(0), 1)
            arithmetic.store(b, pointer, array.dtype, b.add(left, b.mul(lane, i64(problem.group.c))), value)
