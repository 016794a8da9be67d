"""Loops over the elements of a window that lie in the array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from llvmlite import ir

from xloom.cpu.kernels.window.axes import WindowAxis
from xloom.llvm.loop import loop
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import I64, i64


def coordinates(b: ir.IRBuilder, row: ir.Value, outer: Sequence[WindowAxis]) -> list[ir.Value]:
    """The windows along each axis, of row-major number `row`."""
    return parts(b, row, [axis.count for axis in outer])


def parts(b: ir.IRBuilder, number: ir.Value, sizes: Sequence[int | SymbolicDimension]) -> list[ir.Value]:
    """The index along each of dimensions of `sizes`, of row-major number `number`."""
    out = []
    for size in reversed(sizes[1:]):
        out.append(b.urem(number, i64(size)))
        number = b.udiv(number, i64(size))
    return [*([number] if sizes else ()), *reversed(out)]


@contextmanager
def each_element(b: ir.IRBuilder, axes: Sequence[WindowAxis], windows: Sequence[ir.Value]) -> Iterator[ir.Value]:
    """Emits the `with` for the elements of a window, in order, that lie in the array: with their index in it."""
    with ExitStack() as stack:
        start = I64(0)
        for axis, window in zip(axes, windows, strict=True):
            position = window
            if not axis.is_plain:
                low, high = axis.elements_inside(window, b)
                element = stack.enter_context(loop(b, low, high, name="place"))
                if axis.window.window_reversal:
                    element = b.sub(b.sub(plus(b, low, high), I64(1)), element)
                position = stack.enter_context(without_gaps(b, axis, axis.position(window, element, b)))
            start = plus(b, start, times(b, position, axis.stride))
        yield start


@contextmanager
def without_gaps(b: ir.IRBuilder, axis: WindowAxis, position: ir.Value) -> Iterator[ir.Value]:
    """Where a position lies in the array, if it is not in a gap of base dilation: else the `with` is skipped."""
    step = axis.window.base_dilation
    if step == 1:
        yield position
        return
    with b.if_then(b.icmp_unsigned("==", b.urem(position, I64(step)), I64(0))):
        yield b.udiv(position, I64(step))
