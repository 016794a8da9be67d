"""Convolutions of few output features a group with long windows: gradients of kernels in groups.

An item is a vector of groups, or some: all their outputs are sums over the same elements of what is the kernel here,
each at its distance in a box of the input. Of groups of several features, those of the kernel take turns to meet each
of the input's: a rotation of the lanes moves them by one within their group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.input_box import BOX_BYTES, MOST_VECTORS, Box, BoxDimension, VectorRun
from xloom.cpu.kernels.convolution.window_pointers import WindowPointer, walk_window
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.cpu.kernels.matmul.axes import Axis, count, digits
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, rolled, share
from xloom.hlo.attributes import Window
from xloom.hlo.dtype import DType
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import POINTER, element_pointer, i64
from xloom.llvm.vectors import shuffled

_MOST_SUMS = 25
"""In registers at a time."""
_MOST_OUTPUTS = 144
_ITEMS = 3
"""At least, where there are so many vectors, before some are copied side by side."""


@dataclass(frozen=True)
class Correlation:
    """The boxes of both operands, of which the first dimension is cut into `window_block` elements of the window."""

    x: Box
    w: Box | None
    """None where its groups are adjacent, so that it is read where it lies."""
    window_block: int
    outputs: tuple[int, ...]
    lanes: Axis
    """The features of all groups: how many, strides of x ("a") and w ("b")."""
    rotations: int
    """How many each group has."""

    @property
    def rows(self) -> int:
        """How many are in registers at a time: of groups of several features, all rotations of outputs of a line."""
        if self.rotations == 1:
            return share(self.total, _MOST_SUMS)
        last = self.outputs[-1]
        return self.rotations * max(
            n for n in range(1, last + 1) if last % n == 0 and (n == 1 or n * self.rotations <= _MOST_SUMS)
        )

    @property
    def total(self) -> int:
        """How many outputs a feature has."""
        return prod(self.outputs) * self.rotations


def correlation_of(
    arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any], x: Array, w: Array
) -> Correlation | None:
    """How to compute a convolution as a correlation; None where another one is better."""
    group, lanes, rotations = _features(problem), arithmetic.lanes, problem.output.size
    if arithmetic.parts > 1 or not problem.taps or group is None or group.size < lanes or lanes % rotations:
        return None
    last = problem.taps[-1]
    if any(d.base_dilation > 1 or d.window_reversal for d in window):
        return None
    if (group.a != 1 and last.a != 1) or (group.b != 1 and last.b != 1):
        return None
    outputs = [d.classes[0].count for d in problem.dims]
    if prod(outputs) * rotations > _MOST_OUTPUTS or prod(d.size for d in window) < prod(outputs):
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
    box_dims = [BoxDimension(n, s, t.a) for n, s, t in zip(lengths(taps), sizes, problem.taps, strict=True)]
    other = [BoxDimension(n, d.size, t.b) for n, d, t in zip(taps, window, problem.taps, strict=True)]
    return Correlation(
        Box(arithmetic, x, tuple(box_dims), group.a, vectors),
        None if group.b == 1 else Box(arithmetic, w, tuple(other), group.b),
        taps[0],
        counts,
        group,
        int(rotations),
    )


def _features(problem: Convolution) -> Axis | None:
    """The features of all groups as one axis; None where groups have others in the input than in the kernel."""
    group, batch, output = problem.group, problem.batch, problem.output
    if output.size == 1:
        return group
    if batch.size != output.size or (group.a, group.b) != (batch.a * batch.size, output.b * output.size):
        return None
    return Axis(group.size * batch.size, batch.a, output.b, 0)


def correlate(kernel: Kernel, plan: Correlation, problem: Convolution, window: Window, w: Array, y: Array) -> None:
    """Adds the phase, an item of which are all outputs of a vector of groups."""
    arithmetic, lanes, group = plan.x.arithmetic, plan.x.lanes, plan.lanes
    panels = -(-group.size // lanes)
    images = problem.batch if plan.rotations == 1 else Axis(1, 0, 0, 0)
    items = [Axis(images.size, 0, 0, 0), Axis(-(-panels // plan.x.vectors), 0, 0, 0)]
    cost = 2 * plan.total * count(problem.taps) * problem.feature.size * plan.x.vectors * lanes
    with kernel.phase(count(tuple(items)), grain(cost, arithmetic)) as phase:
        b = phase.b
        x, first_memory, second_memory = plan.x.source.pointer(phase), plan.x.memory(b), plan.w and plan.w.memory(b)
        totals = allocate(b, arithmetic.kind(lanes), plan.total * plan.x.vectors)
        totals.align, totals.type = 64, POINTER
        sums = Sums(b, Tile(arithmetic, plan.rows, 1, lanes))
        with rolled(b, phase.begin, phase.end, name="groups") as item:
            image, run = digits(b, items, item)
            vector = b.mul(run, i64(plan.x.vectors))
            left = at_most(b, b.mul(vector, i64(lanes)), group.size - lanes)
            vectors = at_most(b, b.sub(i64(panels), vector), plan.x.vectors)
            starts = [
                b.add(i64(base), b.add(b.mul(image, i64(stride)), b.mul(left, i64(across))))
                for base, stride, across in (
                    (problem.x_base, images.a, group.a),
                    (problem.w_base, 0, group.b),
                )
            ]
            run = VectorRun(x, starts[0], vectors, b.sub(i64(group.size - lanes), left))
            _clear(b, plan, totals)
            with (
                rolled(b, 0, problem.feature.size, name="feature") as feature,
                rolled(b, 0, window[0].size, plan.window_block, name="step") as window_row,
            ):
                at = b.add(run.origin, b.mul(feature, i64(problem.feature.a)))
                first_positions = [i64(-d.padding_low) for d in window]
                first_positions[0] = b.add(first_positions[0], b.mul(window_row, i64(window[0].window_dilation)))
                plan.x.fill(b, run._replace(origin=at), first_positions, first_memory)
                other = b.add(starts[1], b.mul(feature, i64(problem.feature.b)))
                source, strides = w.pointer(phase), [t.b for t in problem.taps]
                dtype = w.dtype
                if plan.w is not None and second_memory is not None:
                    plan.w.fill(b, VectorRun(source, other), [window_row, *(i64(0) for _ in window[1:])], second_memory)
                    source, strides, other, dtype = second_memory, plan.w.strides, i64(0), arithmetic.dtype
                else:
                    other = b.add(other, b.mul(window_row, i64(problem.taps[0].b)))
                size = at_most(b, b.sub(i64(window[0].size), window_row), plan.window_block)
                with rolled(b, 0, vectors, name="vector") as number:
                    start = b.gep(
                        first_memory,
                        [b.mul(number, i64(plan.x.size))],
                        inbounds=True,
                        source_etype=arithmetic.element,
                    )
                    met = element_pointer(b, source, dtype, b.add(other, run.left(b, number, lanes)))
                    loops = [
                        (n, [d.window_dilation * s, stride])
                        for n, d, s, stride in zip(
                            [size, *(d.size for d in window[1:])], window, plan.x.strides, strides, strict=True
                        )
                    ]
                    _add(b, plan, window, sums, (totals, number), loops, ((start, arithmetic.dtype), (met, dtype)))
            target = y, y.pointer(phase), b.mul(image, i64(images.c))
            _store(b, plan, problem, (totals, run, left), target)


def _clear(b: ir.IRBuilder, plan: Correlation, totals: ir.Value) -> None:
    arithmetic, lanes = plan.x.arithmetic, plan.x.lanes
    with rolled(b, 0, plan.total * plan.x.vectors, name="total") as number:
        pointer = b.gep(totals, [number], inbounds=True, source_etype=arithmetic.kind(lanes))
        b.store(arithmetic.zero(lanes)[0], pointer)


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
    arithmetic, lanes, rotations = plan.x.arithmetic, plan.x.lanes, plan.rotations
    kind = arithmetic.kind(lanes)
    memory, vector = totals
    (start, dtype), (_, other) = operands
    strides = [d.stride * s for d, s in zip(window, plan.x.strides, strict=True)]
    here, there = (WindowPointer(pointer, kind.bytes) for pointer, kind in operands)
    base = b.mul(vector, i64(plan.total))

    def some(first: ir.Value, distances: Sequence[int], here: WindowPointer) -> None:
        """The rotations of outputs at these distances, of which the first total has a number."""
        cells = [
            b.gep(memory, [b.add(b.add(base, first), i64(k))], inbounds=True, source_etype=kind)
            for k in range(len(distances) * rotations)
        ]
        for k, cell in enumerate(cells):
            sums.set(b, k, 0, [b.load(cell, typ=kind)])

        def add(pointers: Sequence[ir.Value]) -> None:
            met = [arithmetic.load(b, pointers[0], dtype, i64(n), lanes) for n in distances]
            for rotation, value in enumerate(_rotated(b, plan, pointers[1], other)):
                for n, x in enumerate(met):
                    k = n * rotations + rotation
                    sums.set(b, k, 0, arithmetic.multiply_add(b, x, value, sums.get(b, k, 0)))

        walk_window(b, loops, [here, there], add)
        for k, cell in enumerate(cells):
            b.store(sums.get(b, k, 0)[0], cell)

    if rotations == 1:
        distances = [
            sum(o * s for o, s in zip(output, strides, strict=True))
            for output in product(*(range(n) for n in plan.outputs))
        ]
        for first in range(0, plan.total, plan.rows):
            some(i64(first), distances[first : first + plan.rows], here)
        return
    several = plan.rows // rotations
    *outer, last = plan.outputs
    axes = [Axis(n, 0, 0, 0) for n in (*outer, last // several)]
    with rolled(b, 0, count(tuple(axes)), name="outputs") as number:
        distance: ir.Value = i64(0)
        for digit, stride in zip(digits(b, axes, number), (*strides[:-1], several * strides[-1]), strict=True):
            distance = b.add(distance, b.mul(digit, i64(stride)))
        moved = element_pointer(b, start, dtype, distance)
        some(b.mul(number, i64(plan.rows)), [k * strides[-1] for k in range(several)], here._replace(pointer=moved))


def _rotated(b: ir.IRBuilder, plan: Correlation, pointer: ir.Value, dtype: DType) -> Iterator[Parts]:
    """What a vector of features of the input is multiplied with, rotation after rotation."""
    arithmetic, lanes, rotations = plan.x.arithmetic, plan.x.lanes, plan.rotations
    if rotations == lanes:  # processors load a scalar into all lanes
        for rotation in range(rotations):
            yield arithmetic.splat(b, arithmetic.load(b, pointer, dtype, i64(rotation), 1), lanes)
        return
    value = arithmetic.load(b, pointer, dtype, i64(0), lanes)
    for rotation in range(rotations):
        picks = [k - k % rotations + (k + rotation) % rotations for k in range(lanes)]
        yield [shuffled(b, part, picks) if rotation else part for part in value]


def _store(
    b: ir.IRBuilder,
    plan: Correlation,
    problem: Convolution,
    totals: tuple[ir.Value, VectorRun, ir.Value],
    target: tuple[Array, ir.Value, ir.Value],
) -> None:
    """Writes the totals of all vectors, lane by lane."""
    arithmetic, lanes, rotations = plan.x.arithmetic, plan.x.lanes, plan.rotations
    memory, run, begin = totals
    array, pointer, start = target
    numbers = [Axis(n, 0, 0, t.c) for n, t in zip(plan.outputs, problem.taps, strict=True)]
    numbers.append(Axis(rotations, 0, 0, 0))
    pair = [Axis(problem.group.size, 0, 0, problem.group.c), Axis(rotations, 0, 0, problem.batch.c)]
    with rolled(b, 0, run.count, name="vector") as vector, rolled(b, 0, plan.total, name="total") as total:
        first = b.add(begin, run.left(b, vector, lanes))
        *position, rotation = digits(b, numbers, total)
        at = start
        for axis, digit in zip(numbers, position, strict=False):
            at = b.add(at, b.mul(digit, i64(axis.c)))
        row = b.mul(b.add(b.mul(vector, i64(plan.total)), total), i64(lanes))
        with rolled(b, 0, lanes, name="lane") as lane:
            cell = b.gep(memory, [b.add(row, lane)], inbounds=True, source_etype=arithmetic.element)
            value = arithmetic.load(b, cell, arithmetic.dtype, i64(0), 1)
            feature = b.add(first, lane)
            if rotations == 1:
                to = b.mul(feature, i64(problem.group.c))
            else:
                group, own = digits(b, pair, feature)
                other = rotation if rotations == lanes else b.urem(b.add(own, rotation), i64(rotations))
                to = b.add(b.mul(group, i64(problem.group.c)), b.mul(own, i64(problem.batch.c)))
                to = b.add(to, b.mul(other, i64(problem.output.c)))
            arithmetic.store(b, pointer, array.dtype, b.add(at, to), value)
