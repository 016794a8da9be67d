"""Gradients of depthwise filters: convolutions of few outputs whose windows are images, groups adjacent in all arrays.

Some lines of an image are read for all outputs while the first cache holds them, then the next ones; so sums wait in
memory of their own. Images are cut into shares where there are few groups, and the sums of all shares added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.depthwise_lines import DepthwiseLines, are_side_by_side
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits, linear_offset, row_major
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, rolled, share
from xloom.hlo.attributes import Window
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import i64

_MOST_VECTORS = 4
"""Of groups, that are computed for some lines before the next ones."""
_LINES = 1 / 2
"""Of the first cache, what some lines take, and those of the input that they meet."""
_ITEMS = 16
"""At least, where there are so many lines."""
_STREAMED = 1 / 8
"""Of the last cache, what images take whose lines are read once, in the order in which they lie in memory."""
_SHARE = 4
"""Times what a share has of outputs, it has of places at least: its sums are written and read again."""


@dataclass(frozen=True)
class FilterGradient:
    """How it is computed: vectors of groups of a run, lines of a block, shares of the blocks of all images."""

    arithmetic: Arithmetic
    lines: DepthwiseLines
    taps: Any
    """Lines of an image."""
    block: int
    runs: Any
    segment: Any
    """Runs of an item."""
    shares: Any

    @property
    def width(self) -> int:
        """Elements of the vectors of a run."""
        return self.lines.vectors * self.arithmetic.lanes

    @property
    def beside(self) -> int:
        """Elements of the vectors that are computed at once."""
        return self.lines.beside * self.arithmetic.lanes

    @property
    def blocks(self) -> Any:
        """How many an image has."""
        return -(-self.taps // self.block)


def filter_gradient_of(
    arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any]
) -> FilterGradient | None:
    """How to compute a convolution whose windows have more elements than there are outputs; None of others."""
    group, lanes = problem.group, arithmetic.lanes
    if not are_side_by_side(arithmetic, problem):
        return None
    outputs = [sum(c.count for c in d.classes) for d in problem.dims]
    if prod(d.size for d in window) <= prod(outputs) or any(d.base_dilation > 1 for d in window):
        return None
    in_all = -(-group.size // lanes)
    vectors = int(share(in_all, _MOST_VECTORS) if in_all > _MOST_VECTORS else group.size // lanes)
    strides = [n * vectors * lanes for n in row_major(outputs)]
    taps = tuple(t._replace(c=c) for t, c in zip(problem.taps, strides, strict=True))
    lines = DepthwiseLines(arithmetic, problem._replace(feature=Axis(1, 0, 0, 0), taps=taps), window, sizes, vectors)
    if not lines.serves:
        return None
    height, runs = window[0].size, -(-in_all // vectors)
    block, blocks = height, 1
    if len(window) > 1:
        d, nbytes = window[0], vectors * lanes * arithmetic.dtype.bytes
        line = nbytes * (prod(sizes[1:]) * d.window_dilation + prod(w.size for w in window[1:]))
        beside = nbytes * prod(sizes[1:]) * (outputs[0] - 1) * d.stride
        block = int(share(d.size, greatest(1, (int(_LINES * arithmetic.target.caches.first) - beside) // line)))
        blocks = -(-d.size // block)
    nbytes = problem.feature.size * prod(sizes) * group.size * arithmetic.dtype.bytes
    wanted = _ITEMS if nbytes > _STREAMED * arithmetic.target.caches.last else -(-_ITEMS // runs)
    places = problem.feature.size * prod(d.size for d in window)
    shares = least(least(problem.feature.size * blocks, wanted), greatest(1, places // (_SHARE * prod(outputs))))
    segment = greatest(1, runs * shares // _ITEMS)
    return FilterGradient(arithmetic, lines, height, block, runs, segment, shares)


def depthwise_filter_gradient(
    kernel: Kernel, plan: FilterGradient, problem: Convolution, x: Array, w: Array, y: Array
) -> None:
    """Two phases: sums of a share, an item each for a run of vectors; then what they add up to."""
    arithmetic, lines, lanes = plan.arithmetic, plan.lines, plan.arithmetic.lanes
    images, size = problem.batch, prod(lines.outputs) * plan.width
    sums = new_array(kernel, arithmetic.dtype, images.size * plan.shares * plan.runs * size)
    pieces = [Axis(n, 0, 0, 0) for n in (problem.feature.size, plan.blocks)]
    each = -(-count(tuple(pieces)) // plan.shares)
    segments = -(-plan.runs // plan.segment)
    items = [Axis(n, 0, 0, 0) for n in (images.size, plan.shares, segments)]
    outer = [Axis(n, 0, 0, 0) for n in lines.outputs[:-1]]
    with kernel.phase(count(tuple(items))) as phase:
        b = phase.b
        lines.begin(b, (x, w, sums), [a.pointer(phase) for a in (x, w, sums)], [lanes] * 3, adds=True)
        with rolled(b, phase.begin, phase.end, name="share") as item:
            image, number, segment = digits(b, items, item)
            first_run = b.mul(segment, i64(plan.segment))
            last_run = at_most(b, b.add(first_run, i64(plan.segment)), plan.runs)
            base = b.mul(b.add(b.mul(image, i64(plan.shares)), number), i64(plan.runs * size))
            first, past = (b.add(base, b.mul(r, i64(size))) for r in (first_run, last_run))
            with rolled(b, first, past, lanes, name="sum") as k:
                arithmetic.store(b, sums.pointer(phase), sums.dtype, k, arithmetic.zero(lanes))
            begin = b.mul(number, i64(each))
            end = at_most(b, b.add(begin, i64(each)), count(tuple(pieces)))
            with (
                rolled(b, begin, end, name="block") as piece,
                rolled(b, first_run, last_run, name="run") as run,
                _vectors(b, plan, problem, run) as (vector, group),
            ):
                feature, block = digits(b, pieces, piece)
                tap = b.mul(block, i64(plan.block))
                taps = tap, at_most(b, b.add(tap, i64(plan.block)), plan.taps)
                starts = [
                    b.add(b.add(i64(start), b.mul(image, i64(stride))), b.add(group, b.mul(feature, i64(step))))
                    for start, stride, step in (
                        (problem.x_base, images.a, problem.feature.a),
                        (problem.w_base, 0, problem.feature.b),
                    )
                ]
                to = b.add(b.add(base, b.mul(run, i64(size))), vector)
                with rolled(b, 0, count(tuple(outer)), name="line") as line:
                    positions = digits(b, outer, line)
                    lines.line([*starts, to], positions, i64(0), i64(lines.outputs[-1]), taps if positions else None)
    _add_shares(kernel, plan, problem, sums, y)


@contextmanager
def _vectors(
    b: ir.IRBuilder, plan: FilterGradient, problem: Convolution, run: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """A loop over the vectors of a run: where they lie among its sums, and their first group."""
    groups = problem.group.size
    first = b.mul(run, i64(plan.width))
    left = at_most(b, b.sub(i64(groups), first), plan.width)
    with rolled(b, 0, left, plan.beside, name="vector") as vector:
        yield vector, at_most(b, b.add(first, vector), groups - plan.beside)


def _add_shares(kernel: Kernel, plan: FilterGradient, problem: Convolution, sums: Array, y: Array) -> None:
    """A phase that adds the sums of all shares, an item each for an output of a run."""
    arithmetic, lanes, images = plan.arithmetic, plan.arithmetic.lanes, problem.batch
    outputs = [Axis(n, 0, 0, t.c) for n, t in zip(plan.lines.outputs, problem.taps, strict=True)]
    items = [Axis(n, 0, 0, 0) for n in (images.size, plan.runs, count(tuple(outputs)))]
    size = count(tuple(outputs)) * plan.width
    with kernel.phase(count(tuple(items)), grain(plan.width * plan.shares, arithmetic)) as phase:
        b = phase.b
        total = Sums(b, Tile(arithmetic, 1, 1, lanes))
        with rolled(b, phase.begin, phase.end, name="output") as item:
            image, run, output = digits(b, items, item)
            to = b.add(b.mul(image, i64(images.c)), linear_offset(b, tuple(outputs), output, "c"))
            first = b.add(b.mul(b.mul(image, i64(plan.shares)), i64(plan.runs * size)), b.mul(run, i64(size)))
            first = b.add(first, b.mul(output, i64(plan.width)))
            with _vectors(b, plan, problem, run) as (vector, group), rolled(b, 0, plan.beside, lanes) as k:
                at = b.add(first, b.add(vector, k))
                total.clear(b)
                with rolled(b, 0, plan.shares, name="share") as number:
                    there = b.add(at, b.mul(number, i64(plan.runs * size)))
                    value = arithmetic.load(b, sums.pointer(phase), sums.dtype, there, lanes)
                    total.set(b, 0, 0, arithmetic.add(b, total.get(b, 0, 0), value))
                arithmetic.store(b, y.pointer(phase), y.dtype, b.add(b.add(to, group), k), total.get(b, 0, 0))
