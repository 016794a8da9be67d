"""A copy of a convolution's input in the accumulator's type, with zeros where the window reaches past its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.cpu.kernels.matmul.axes import Axis, digits
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.packing import Packing, PackingTask
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.hlo.dtype import DType, u16
from xloom.llvm.types import element_pointer, i64
from xloom.llvm.vectors import lanes_below

_GRAIN = 1 << 16
"""Elements that are copied in about 20 µs."""


class Extent(NamedTuple):
    """A dimension of the copy: elements [start, start + size) of `present` ones, `stride` apart; others are 0."""

    start: int
    size: int
    present: int
    stride: int

    @property
    def first(self) -> int:
        """The first element of the copy that is there."""
        return min(self.size, max(0, -self.start))

    @property
    def length(self) -> int:
        """How many elements are there."""
        return max(0, min(self.size, self.present - self.start) - self.first)


def unconverted(arithmetic: Arithmetic, dtype: DType) -> tuple[Arithmetic, DType]:
    """How elements are copied whose type products read as it is."""
    return (Arithmetic(u16, arithmetic.target), u16) if arithmetic.pack_factor > 1 else (arithmetic, dtype)


def padded(kernel: Kernel, arithmetic: Arithmetic, x: Array, extents: Sequence[Extent], slack: int = 0) -> Array:
    """A phase that makes a copy with these dimensions, outermost first, and `slack` elements that may be read too.

    The last dimension may lie anywhere in `x` when the one before it is adjacent there; the others are in order.
    """
    arithmetic, dtype = unconverted(arithmetic, x.dtype)
    held, x = x.dtype, replace(x, dtype=dtype)
    copy = new_array(kernel, arithmetic.dtype, prod(e.size for e in extents), slack)
    moved = extents[-1].stride != 1
    partial = [k for k, e in enumerate(extents) if (e.start, e.size) != (0, e.present)]
    inner = len(extents) - 2 if moved else max(partial, default=len(extents) - 1)  # from here on a line of the copy
    tail = prod(e.size for e in extents[inner + 1 :])
    extent, outer = extents[inner], extents[:inner]
    total = extent.size * tail
    packing = None
    if moved:
        rows, depth = Axis(tail, extents[-1].stride, 0, 0), Axis(extent.length, 1, 0, 0)
        packing = Packing(arithmetic, x, "a", (rows,), (depth,), tail)
    with kernel.phase(prod(e.size for e in outer), max(1, _GRAIN // total)) as phase:
        b = phase.b
        source, target = x.pointer(phase), copy.pointer(phase)
        with rolled(b, phase.begin, phase.end, name="line") as line:
            at: ir.Value = i64(max(0, extent.start) * extent.stride)
            length: ir.Value = i64(extent.length)
            position = digits(b, [Axis(e.size, 0, 0, 0) for e in outer], line)
            for e, digit in zip(outer, position, strict=True):
                coordinate = b.add(digit, i64(e.start))
                at = b.add(at, b.mul(coordinate, i64(e.stride)))
                if e.length < e.size:
                    length = b.select(b.icmp_unsigned("<", coordinate, i64(e.present)), length, i64(0))
            begin = b.mul(line, i64(total))
            first = b.add(begin, i64(extent.first * tail))
            middle = b.add(first, b.mul(length, i64(tail)))
            if extent.first:
                fill(b, arithmetic, target, copy.dtype, (begin, first))
            if packing is None:
                fill(b, arithmetic, target, copy.dtype, (first, middle), (source, x.dtype, at))
            else:
                pointer = element_pointer(b, target, copy.dtype, first)
                packing.emit(b, PackingTask(source, at, i64(0), i64(0), length, pointer))
            fill(b, arithmetic, target, copy.dtype, (middle, b.add(begin, i64(total))))
    return replace(copy, dtype=held) if copy.dtype is u16 else copy


def fill(
    b: ir.IRBuilder,
    arithmetic: Arithmetic,
    target: ir.Value,
    dtype: DType,
    bounds: tuple[ir.Value, ir.Value],
    source: tuple[ir.Value, DType, ir.Value] | None = None,
) -> None:
    """Makes elements [begin, end) zeros, or those of an array from one of its elements on."""
    begin, end = bounds
    lanes = arithmetic.lanes

    def put(i: ir.Value, mask: ir.Value | None) -> None:
        value: Parts = arithmetic.zero(lanes)
        if source is not None:
            array, kind, first = source
            value = arithmetic.load(b, array, kind, b.add(first, b.sub(i, begin)), lanes, mask)
        arithmetic.store(b, target, dtype, i, value, mask)

    whole = b.add(begin, b.and_(b.sub(end, begin), i64(-lanes)))
    with rolled(b, begin, whole, lanes, name="vector") as i:
        put(i, None)
    with b.if_then(b.icmp_signed("<", whole, end)):
        put(whole, lanes_below(b, lanes, b.sub(end, whole)))
