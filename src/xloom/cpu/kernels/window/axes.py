"""The dimensions of a windowed array, and which of a window's elements lie in the array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from xloom.hlo.attributes import WindowDimension
from xloom.llvm.routine import least
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I64

_WHOLE = WindowDimension(1)


@dataclass(frozen=True)
class WindowAxis:
    """A dimension of `size` elements that has `count` windows; `stride` is that of the array."""

    size: int
    count: int
    window: WindowDimension
    stride: int = 1

    @property
    def is_plain(self) -> bool:
        """True when each element is a window of its own."""
        w = self.window
        return (w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation) == (1, 1, 0, 0, 1)

    @property
    def extent(self) -> int:
        """The size with the gaps of base dilation."""
        return (self.size - 1) * self.window.base_dilation + 1 if self.size else 0

    def windows_inside(self, element: ir.Value, b: ir.IRBuilder) -> tuple[ir.Value, ir.Value]:
        """The range of windows whose element number `element` is neither in the padding below nor above."""
        w = self.window
        below = b.sub(I64(w.padding_low), times(b, element, w.window_dilation))
        low, high = (_ceil_div(b, n, w.stride) for n in (below, plus(b, below, self.extent)))
        return low, least(b, high, I64(self.count))

    def elements_inside(self, window: ir.Value, b: ir.IRBuilder) -> tuple[ir.Value, ir.Value]:
        """The range of a window's elements that are neither in the padding below nor above."""
        w = self.window
        below = b.sub(I64(w.padding_low), times(b, window, w.stride))
        low, high = (_ceil_div(b, n, w.window_dilation) for n in (below, plus(b, below, self.extent)))
        return low, least(b, high, I64(w.size))

    def position(self, window: ir.Value, element: ir.Value, b: ir.IRBuilder) -> ir.Value:
        """Where element number `element` of a window lies in the array with its gaps."""
        w = self.window
        return plus(b, plus(b, times(b, window, w.stride), times(b, element, w.window_dilation)), -w.padding_low)

    @property
    def whole_windows(self) -> tuple[int, int]:
        """The range of windows that lie in the array with all their elements."""
        w = self.window
        first = -(-w.padding_low // w.stride) if w.padding_low > 0 else 0
        last = (self.extent + w.padding_low - w.dilated_size) // w.stride + 1
        return min(first, self.count), max(min(first, self.count), min(last, self.count))


def axes_of(dims: Sequence[int], window: Sequence[WindowDimension]) -> list[WindowAxis]:
    """The axes of a dense array, the last one last; neighbours without windows are one."""
    found: list[WindowAxis] = []
    for size, w in zip(dims, window or [_WHOLE] * len(dims), strict=True):
        axis = WindowAxis(size, w.output_size(size), w)
        if found and axis.is_plain and found[-1].is_plain:
            found[-1] = WindowAxis(found[-1].size * size, found[-1].size * size, _WHOLE)
        elif not axis.is_plain or size != 1:
            found.append(axis)
    out, stride = [], 1
    for axis in reversed(found or [WindowAxis(1, 1, _WHOLE)]):
        out.append(WindowAxis(axis.size, axis.count, axis.window, stride))
        stride *= axis.size
    return out[::-1]


def _ceil_div(b: ir.IRBuilder, n: ir.Value, by: int) -> ir.Value:
    """ceil(n / by), and 0 for negative n."""
    n = b.select(b.icmp_signed("<", n, I64(0)), I64(0), n)
    return n if by == 1 else b.udiv(plus(b, n, by - 1), I64(by))
