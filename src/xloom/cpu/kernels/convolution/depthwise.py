"""Convolutions of one feature a group, forwards: vectors across groups, boxes of the input in the first caches.

An item is a box of the output for a vector of groups. What it meets is copied to the stack first, whether groups or
places are adjacent in memory; so that windows need not know of edges, strides and dilation of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.input_box import BOX_BYTES, MOST_VECTORS, Box, BoxDimension, VectorRun, put_across
from xloom.cpu.kernels.convolution.packed_filter import packed_panels
from xloom.cpu.kernels.convolution.window_pointers import WindowPointer, walk_window
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits, row_major
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packing import Packing
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, rolled, share, spaced
from xloom.hlo.attributes import Window
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import element_pointer, i64

_MOST_ROWS = 28
"""Of sums."""


@dataclass(frozen=True)
class DepthwisePlan:
    """The boxes: outputs in a box, by dimension, of which the first is cut; and the tile of a box."""

    box: Box
    outputs: tuple[Any, ...]
    cuts: Any
    rows: tuple[int, int]
    """Of a tile, along the last two dimensions."""


def plan_of(
    arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any], x: Array
) -> DepthwisePlan | None:
    """How to compute a depthwise convolution; None where another one is better."""
    if arithmetic.parts > 1 or not problem.taps or problem.feature.size != 1 or problem.output.size != 1:
        return None
    lanes = arithmetic.lanes
    last, group = problem.taps[-1], problem.group
    if group.size < lanes or (group.a != 1 and last.a != 1) or (group.c != 1 and last.c != 1):
        return None
    adjacent = group.a == group.c == 1
    if any(d.base_dilation > 1 and (adjacent or d.padding_low < 0 or len(window) == 1) for d in window):
        return None
    outputs = [d.classes[0].count if len(d.classes) == 1 else sum(c.count for c in d.classes) for d in problem.dims]
    if prod(d.size for d in window) > prod(outputs):
        return None
    if group.c != 1 and any(t.c != s for t, s in zip(problem.taps, row_major(outputs), strict=True)):
        return None

    def lengths(counts: list[Any]) -> list[Any]:
        return [(n - 1) * d.stride + d.dilated_size for n, d in zip(counts, window, strict=True)]

    vector = prod(lengths(outputs)[1:]) * lanes * arithmetic.dtype.bytes
    vectors: Any = 1
    if adjacent:  # few enough for boxes that do not overlap too much
        rows = lengths([least(outputs[0], window[0].dilated_size + 1), *outputs[1:]])[0]
        vectors = share(-(-group.size // lanes), least(greatest(1, BOX_BYTES // (vector * rows)), MOST_VECTORS))
    most = (BOX_BYTES // (vectors * vector) - window[0].dilated_size) // window[0].stride + 1
    if most < 1:
        return None
    outputs[0], cuts = share(outputs[0], most), -(-outputs[0] // share(outputs[0], most))
    box_dims = [
        BoxDimension(n, size, t.a, d.base_dilation)
        for n, size, t, d in zip(lengths(outputs), sizes, problem.taps, window, strict=True)
    ]
    along = int(share(outputs[-1], _MOST_ROWS))
    beside = int(share(outputs[-2], _MOST_ROWS // along)) if len(outputs) > 1 else 1
    return DepthwisePlan(Box(arithmetic, x, tuple(box_dims), group.a, vectors), tuple(outputs), cuts, (beside, along))


def depthwise(kernel: Kernel, plan: DepthwisePlan, problem: Convolution, window: Window, w: Array, y: Array) -> None:
    """Packs the kernel, a vector for each place of a window; then computes boxes of the output."""
    arithmetic, lanes = plan.box.arithmetic, plan.box.lanes
    rows = Axis(problem.group.size, 0, problem.group.b, 0)
    taps = tuple(Axis(t.size, t.a, t.b, 0) for t in problem.taps)
    packing = Packing(arithmetic, w, "b", (rows,), taps, lanes)
    memory = packed_panels(kernel, packing, problem.w_base, Axis(1, 0, 0, 0))
    total = sum(c.count for c in problem.dims[0].classes)
    runs = -(-packing.panels // plan.box.vectors)
    transposed = problem.group.c != 1
    counts = [problem.batch.size, runs, plan.cuts] if transposed else [problem.batch.size, plan.cuts, runs]
    items = [Axis(n, 0, 0, 0) for n in counts]
    cost = 2 * prod(plan.outputs) * plan.box.vectors * lanes * count(taps)
    with kernel.phase(count(tuple(items)), grain(cost, arithmetic)) as phase:
        b = phase.b
        sums = Sums(b, Tile(arithmetic, plan.rows[0] * plan.rows[1], 1, lanes))
        copy_memory = plan.box.memory(b)
        result = plan.box.memory(b) if transposed else None
        source, target = plan.box.source.pointer(phase), y.pointer(phase)
        with rolled(b, phase.begin, phase.end, name="box") as item:
            image, first, second = digits(b, items, item)
            run, cut = (first, second) if transposed else (second, first)
            vector = b.mul(run, i64(plan.box.vectors))
            group = at_most(b, b.mul(vector, i64(lanes)), problem.group.size - lanes)
            begin = at_most(b, b.mul(cut, i64(plan.outputs[0])), total - plan.outputs[0])
            origin = b.add(b.mul(image, i64(problem.batch.a)), b.mul(group, i64(problem.group.a)))
            starts = [i64(-d.padding_low) for d in window]
            starts[0] = b.add(starts[0], b.mul(begin, i64(window[0].stride)))
            vectors = at_most(b, b.sub(i64(packing.panels), vector), plan.box.vectors)
            copied = VectorRun(
                source, b.add(origin, i64(problem.x_base)), vectors, b.sub(i64(problem.group.size - lanes), group)
            )
            plan.box.fill(b, copied, starts, copy_memory)
            size = packing.panel_size(count(taps))
            panels = b.gep(
                phase.scratch(memory), [b.mul(vector, i64(size))], inbounds=True, source_etype=arithmetic.element
            )
            to = b.add(b.mul(image, i64(problem.batch.c)), b.mul(group, i64(problem.group.c)))
            to = b.add(to, b.mul(begin, i64(problem.taps[0].c)))
            if result is None:
                strides = [t.c for t in problem.taps]
                _tiles(b, plan, window, sums, copied, (copy_memory, panels), (y, target, to, strides))
            else:
                strides = [n * lanes for n in row_major(plan.outputs)]
                kept = Array("scratch", 0, arithmetic.dtype)
                _tiles(b, plan, window, sums, copied, (copy_memory, panels), (kept, result, i64(0), strides))
                put_across(b, arithmetic, result, prod(plan.outputs), (y, target, to, problem.group.c))


def _tiles(
    b: ir.IRBuilder,
    plan: DepthwisePlan,
    window: Window,
    sums: Sums,
    run: VectorRun,
    operands: tuple[ir.Value, ir.Value],
    target: tuple[Array, ir.Value, ir.Value, list[Any]],
) -> None:
    """The tiles of a box."""
    arithmetic, lanes, box_strides = plan.box.arithmetic, plan.box.lanes, plan.box.strides
    copy_memory, panel = operands
    array, pointer, first, strides = target
    beside, along = plan.rows
    sizes = [1] * (len(plan.outputs) - 2) + ([beside, along] if len(plan.outputs) > 1 else [along])
    nbytes = arithmetic.dtype.bytes
    taps = row_major([d.size for d in window])
    loops = [
        (d.size, (d.window_dilation * s, n * lanes))
        for d, s, n in zip(window, box_strides, taps, strict=True)
        if d.size > 1
    ]
    with ExitStack() as tiles:
        vector = tiles.enter_context(rolled(b, 0, run.count, name="vector"))
        at = b.mul(vector, i64(plan.box.size))
        size = prod(d.size for d in window) * lanes
        panel = b.gep(panel, [b.mul(vector, i64(size))], inbounds=True, source_etype=arithmetic.element)
        to = b.add(first, run.left(b, vector, lanes))
        for n, size, d, box_stride, stride in zip(plan.outputs, sizes, window, box_strides, strides, strict=True):
            index = tiles.enter_context(rolled(b, 0, n, size, name="tile"))
            index = index if size == 1 else at_most(b, index, n - size)
            at = b.add(at, b.mul(index, i64(d.stride * box_stride)))
            to = b.add(to, b.mul(index, i64(stride)))
        sums.clear(b)

        def add(pointers: Any) -> None:
            here, kernel = pointers
            [vector] = arithmetic.load(b, kernel, arithmetic.dtype, i64(0), lanes)
            for r in range(beside):
                line = (
                    here
                    if r == 0
                    else b.gep(
                        here,
                        [b.mul(i64(r), i64(window[-2].stride * box_strides[-2]))],
                        inbounds=True,
                        source_etype=arithmetic.element,
                    )
                )
                for c in range(along):
                    k = r * along + c
                    value = arithmetic.load(b, line, arithmetic.dtype, i64(c * window[-1].stride * lanes), lanes)
                    sums.set(b, k, 0, arithmetic.multiply_add(b, value, [vector], sums.get(b, k, 0)))

        start = b.gep(copy_memory, [at], inbounds=True, source_etype=arithmetic.element)
        walk_window(b, loops, [WindowPointer(start, nbytes), WindowPointer(panel, nbytes)], add)
        for r in range(beside):
            base = to if r == 0 else b.add(to, b.mul(i64(r), i64(strides[-2])))
            lines = spaced(b, element_pointer(b, pointer, array.dtype, base), array.dtype, strides[-1])
            for c in range(along):
                arithmetic.store(b, lines(c), array.dtype, i64(0), sums.get(b, r * along + c, 0))
