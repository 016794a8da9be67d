"""Convolutions of one feature a group whose groups are adjacent in all three arrays, which are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.depthwise_lines import DepthwiseLines, are_side_by_side
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.hlo.attributes import Window
from xloom.llvm.types import i64

_MOST_VECTORS = 4
"""That are computed for some lines before those next to them."""
_IMAGES = 1 / 2
"""Of the second cache, what some vectors of groups take of which an item is: their lines are read several times."""


def lines_of(
    arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any]
) -> DepthwiseLines | None:
    """How to compute a convolution whose groups fill vectors and are adjacent in all three arrays; None of others."""
    group = problem.group
    if not are_side_by_side(arithmetic, problem) or problem.feature.size != 1:
        return None
    many = group.size >= _MOST_VECTORS * arithmetic.lanes
    vectors = _MOST_VECTORS if many else int(group.size // arithmetic.lanes)
    lines = DepthwiseLines(arithmetic, problem, window, sizes, vectors)
    return lines if lines.serves else None


def is_small(arithmetic: Arithmetic, problem: Convolution, sizes: Sequence[Any]) -> bool:
    """True where the second cache holds what a vector of outputs meets, while all their places are computed."""
    nbytes = problem.feature.size * prod(sizes) * _MOST_VECTORS * arithmetic.lanes * arithmetic.dtype.bytes
    return nbytes <= _IMAGES * arithmetic.target.caches.second


def depthwise_adjacent(
    kernel: Kernel,
    arithmetic: Arithmetic,
    problem: Convolution,
    lines: DepthwiseLines,
    sizes: Sequence[Any],
    arrays: Sequence[Array],
) -> None:
    """One phase, whose items are lines of the output or pieces of them, or some groups of those."""
    lanes, groups = arithmetic.lanes, problem.group.size
    *outer, last = lines.outputs
    in_runs = is_small(arithmetic, problem, sizes)
    width = lines.vectors * lanes
    runs = -(-groups // width) if in_runs else 1
    items = [Axis(n, 0, 0, 0) for n in (problem.batch.size, runs, *outer, -(-last // lines.length))]
    cost = 2 * lines.length * (width if in_runs else groups) * count(problem.taps) * problem.feature.size
    with kernel.phase(count(tuple(items)), grain(cost, arithmetic)) as phase:
        b = phase.b
        lines.begin(b, arrays, [a.pointer(phase) for a in arrays], [lanes] * 3)
        with rolled(b, phase.begin, phase.end, name="line") as item:
            image, run, *positions, piece = digits(b, items, item)
            at = [i64(problem.x_base), i64(problem.w_base), i64(0)]
            at = [
                b.add(p, b.mul(image, i64(s))) for p, s in zip(at, (problem.batch.a, 0, problem.batch.c), strict=True)
            ]
            begin = at_most(b, b.mul(piece, i64(lines.length)), last - lines.length)
            end = b.add(begin, i64(lines.length))
            first = b.mul(run, i64(width))
            past = at_most(b, b.add(first, i64(width)), groups) if in_runs else i64(groups)
            with rolled(b, first, past, lines.beside * lanes, name="vector") as group:
                group = at_most(b, group, groups - lines.beside * lanes)
                lines.line([b.add(p, group) for p in at], positions, begin, end)
