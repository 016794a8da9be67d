"""A copy of the input without the positions that no window meets, so that those it has are adjacent."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.geometry import Class, Spatial
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, digits, row_major
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.llvm.types import I64, i64
from xloom.llvm.vectors import lanes_below, shuffled

_GRAIN = 1 << 15
"""Elements that are copied in about 20 µs."""


def is_sparse(dim: Spatial) -> bool:
    """True for a window of one tap, and for a single window: their positions are evenly apart."""
    return len(dim.classes) == 1 and (dim.classes[0].taps == 1 or dim.classes[0].count == 1)


def stride_of(dim: Spatial) -> int:
    """How far apart the positions of such a dimension are, in elements."""
    return dim.input_stride if dim.classes[0].taps == 1 else dim.tap_input_stride


def thinned(
    kernel: Kernel, arithmetic: Arithmetic, x: Array, sizes: Sequence[Any], dims: dict[int, Spatial]
) -> tuple[Array, list[Any], dict[int, Spatial]]:
    """A phase that copies an array of these sizes, of which the spatial `dims` are thinned.

    It gives the copy, its sizes and its dimensions.
    """
    counts, strides, at = list(sizes), row_major(sizes), 0
    for p, dim in dims.items():
        [only] = dim.classes
        counts[p] = only.count if only.taps == 1 else only.taps
        at += dim.low * strides[p]
        strides[p] *= stride_of(dim)
    copy = new_array(kernel, x.dtype, prod(counts))
    lanes = arithmetic.lanes
    with kernel.phase(prod(counts[:-1]), max(1, _GRAIN // counts[-1])) as phase:
        b = phase.b
        source, target = x.pointer(phase), copy.pointer(phase)
        with rolled(b, phase.begin, phase.end, name="line") as line:
            position = digits(b, [Axis(n, 0, 0, 0) for n in counts[:-1]], line)
            begin: ir.Value = i64(at)
            for digit, stride in zip(position, strides, strict=False):
                begin = b.add(begin, b.mul(digit, i64(stride)))
            first = b.mul(line, i64(counts[-1]))
            with rolled(b, 0, counts[-1], lanes, name="places") as column:
                left = b.sub(i64(counts[-1]), column)
                here = b.add(begin, b.mul(column, i64(strides[-1])))
                # of two vectors every second element: what is behind the last one of a line may not be there
                seen = b.sub(b.add(left, left), I64(1))
                halves = []
                for k in range(2):
                    mask = lanes_below(b, lanes, b.sub(seen, I64(k * lanes)))
                    halves.append(arithmetic.load(b, source, x.dtype, b.add(here, I64(k * lanes)), lanes, mask))
                value = [shuffled(b, low, range(0, 2 * lanes, 2), high) for low, high in zip(*halves, strict=True)]
                arithmetic.store(b, target, copy.dtype, b.add(first, column), value, lanes_below(b, lanes, left))
    thin = {
        p: Spatial(
            (Class(counts[p], 0, 0, 1) if d.classes[0].taps == 1 else Class(1, 0, 0, counts[p]),),
            1,
            1,
            1,
            0,
            counts[p] - 1,
        )
        for p, d in dims.items()
    }
    return copy, counts, thin
