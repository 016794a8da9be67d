"""Convolutions of one feature a group whose places are adjacent in memory, and not groups: of planes that caches hold.

An item is some vectors of groups of an image: what they meet is moved to the stack, a group per lane, and so are their
outputs until all are there. There are no zeros around it: lines know where they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.depthwise_lines import DepthwiseLines
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.input_box import BOX_BYTES, Box, BoxDimension, VectorRun, put_across
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits, row_major
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.hlo.attributes import Window
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import I8, I64, POINTER, i64

_FEW_OUTPUTS = 4
"""Of a line, for which planes that are gone through for each are read too often, but from the first cache."""
_STAYS = 1 / 2
"""Of that one, what a vector's planes take that stay there."""


@dataclass(frozen=True)
class DepthwisePlanes:
    """How to compute such a convolution; sizes are of a vector's planes, in elements."""

    lines: DepthwiseLines
    inputs: Box
    kernels: Box
    kernel_base: Any
    """Where the first tap is in a kernel's planes: of those that are gone through backwards it is the last place."""
    sizes: tuple[Any, Any, Any]


def planes_of(
    arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any], x: Array, w: Array
) -> DepthwisePlanes | None:
    """How to compute a convolution of planes that lie together in input and output; None of others."""
    group, feature, lanes = problem.group, problem.feature, arithmetic.lanes
    if arithmetic.parts > 1 or not problem.taps or problem.output.size != 1 or group.size < lanes:
        return None
    outputs = [sum(c.count for c in d.classes) for d in problem.dims]
    if prod(d.size for d in window) <= prod(outputs) and feature.size != 1:
        return None
    taps = [t.size for t in problem.taps]
    strides = zip(problem.taps, *(row_major(n) for n in (sizes, taps, outputs)), strict=True)
    if any(t.a != x or greatest(t.b, -t.b) != w or t.c != y for t, x, w, y in strides):
        return None
    inputs, kernels = (_plane(arithmetic, *of) for of in ((x, prod(sizes), group.a), (w, prod(taps), group.b)))
    several = (feature.size - 1) * lanes
    held = inputs.size + several * prod(sizes), kernels.size + several * prod(taps), (prod(outputs) + lanes) * lanes
    nbytes = sum(held) * arithmetic.dtype.bytes
    few = nbytes > _STAYS * arithmetic.target.caches.first and prod(taps) > prod(outputs)
    if nbytes > BOX_BYTES or (few and outputs[-1] < _FEW_OUTPUTS):
        return None
    vectors = next(n for n in (4, 2, 1) if n == 1 or (group.size >= n * lanes and n * nbytes <= BOX_BYTES))
    local = [
        Axis(t.size, a * lanes, b * lanes if t.b > 0 else -(b * lanes), c * lanes)
        for t, a, b, c in zip(problem.taps, *(row_major(n) for n in (sizes, taps, outputs)), strict=True)
    ]
    features = Axis(feature.size, prod(sizes) * lanes, prod(taps) * lanes, 0)
    lines = DepthwiseLines(arithmetic, problem._replace(taps=tuple(local), feature=features), window, sizes, vectors)
    base = -sum((t.size - 1) * t.b for t in local if t.b < 0)
    return DepthwisePlanes(lines, inputs, kernels, base, held) if lines.serves else None


def _plane(arithmetic: Arithmetic, source: Array, positions: Any, lane: Any) -> Box:
    return Box(arithmetic, source, (BoxDimension(positions, positions, 1),), lane)


def depthwise_planes(
    kernel: Kernel, plan: DepthwisePlanes, arithmetic: Arithmetic, problem: Convolution, y: Array
) -> None:
    """One phase; items of the same groups follow one another, and share a packed kernel."""
    lines, lanes, groups = plan.lines, arithmetic.lanes, problem.group.size
    width = lines.beside * lanes
    runs, images = -(-groups // width), problem.batch.size
    cost = 2 * width * prod(lines.outputs) * count(problem.taps) * problem.feature.size
    with kernel.phase(runs * images, grain(cost, arithmetic)) as phase:
        b = phase.b
        kept = [_memory(b, arithmetic) for _ in plan.sizes]
        local = [Array("scratch", k, arithmetic.dtype) for k in range(len(kept))]
        lines.begin(b, local, kept, plan.sizes)
        copied = allocate(b, I64)
        b.store(I64(-1), copied)
        with rolled(b, phase.begin, phase.end, name="planes") as item:
            run, image = digits(b, [Axis(n, 0, 0, 0) for n in (runs, images)], item)
            group = at_most(b, b.mul(run, i64(width)), groups - width)

            def copy(box: Box, number: int, origin: ir.Value, strides: tuple[Any, Any]) -> None:
                lane, feature_stride = strides
                with (
                    rolled(b, 0, lines.beside, name="vector") as v,
                    rolled(b, 0, problem.feature.size, name="feature") as feature,
                ):
                    at = b.add(b.mul(feature, i64(feature_stride)), b.mul(v, i64(lanes * lane)))
                    to = b.mul(v, i64(plan.sizes[number]))
                    to = b.add(to, b.mul(feature, i64(box.positions * lanes)))
                    vector = VectorRun(box.source.pointer(phase), b.add(origin, at))
                    box.fill(b, vector, [i64(0)], _element(b, arithmetic, kept[number], to))

            with b.if_then(b.icmp_unsigned("!=", run, b.load(copied, typ=I64))):
                b.store(run, copied)
                own = problem.group.b, problem.feature.b
                copy(plan.kernels, 1, b.mul(group, i64(problem.group.b)), own)
            origin = b.add(b.mul(image, i64(problem.batch.a)), b.mul(group, i64(problem.group.a)))
            copy(plan.inputs, 0, b.add(origin, i64(problem.x_base)), (problem.group.a, problem.feature.a))
            _lines(b, plan)
            start = b.add(b.mul(image, i64(problem.batch.c)), b.mul(group, i64(problem.group.c)))
            with rolled(b, 0, lines.beside, name="vector") as v:
                result = _element(b, arithmetic, kept[2], b.mul(v, i64(plan.sizes[2])))
                to = b.add(start, b.mul(v, i64(lanes * problem.group.c)))
                put_across(b, arithmetic, result, prod(lines.outputs), (y, y.pointer(phase), to, problem.group.c))


def _lines(b: ir.IRBuilder, plan: DepthwisePlanes) -> None:
    """All lines of an image."""
    lines = plan.lines
    *outer, last = lines.outputs
    axes = [Axis(n, 0, 0, 0) for n in (*outer, -(-last // lines.length))]
    with rolled(b, 0, count(tuple(axes)), name="line") as number:
        *positions, piece = digits(b, axes, number)
        begin = at_most(b, b.mul(piece, i64(lines.length)), last - lines.length)
        starts = [i64(0), i64(plan.kernel_base), i64(0)]
        lines.line(starts, positions, begin, b.add(begin, i64(lines.length)))


def _element(b: ir.IRBuilder, arithmetic: Arithmetic, pointer: ir.Value, index: ir.Value) -> ir.Value:
    return b.gep(pointer, [index], inbounds=True, source_etype=arithmetic.element)


def _memory(b: ir.IRBuilder, arithmetic: Arithmetic) -> ir.Value:
    memory = allocate(b, I8, BOX_BYTES + arithmetic.target.registers.nbytes)
    memory.align, memory.type = 64, POINTER
    return memory
