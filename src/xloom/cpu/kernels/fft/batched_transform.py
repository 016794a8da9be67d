"""A phase that transforms lines of an array: which function it is, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.line_transform import line_transform
from xloom.cpu.kernels.fft.phases import ArrayPlace, FftPhase
from xloom.cpu.kernels.fft.signatures import STACK, LinesCode, LinesNumbers
from xloom.cpu.kernels.fft.tables import Tables
from xloom.cpu.kernels.linalg.lanes import Lanes
from xloom.cpu.kernels.linalg.tile_transpose import SquareTile
from xloom.hlo.dtype import DType
from xloom.llvm.target import Target

_POINTS = 8_000
"""Transformed by one thread in about 20 µs."""


class BatchLayout(NamedTuple):
    """Where lines lie: an array, and the distances of groups of lines, of points of a line, and of lines.

    Either points or lines are neighbours.
    """

    array: ArrayPlace
    group: int
    point: int
    line: int


@dataclass(frozen=True)
class BatchedTransform:
    """`groups` of `count` lines of `n` points, from one side to another.

    Both may be the same places, unless points are neighbours and the last vector of lines is not full.
    With `twiddle_period` p, point j of line k is multiplied by exp(sign 2 pi i j k / p) before. Of a group that is
    `united`, the source is the spectrum of twice so many real points, and one longer. With `halves`, each line is one.
    """

    dtype: DType
    sign: int
    n: int
    groups: int
    count: int
    source: BatchLayout
    target: BatchLayout
    scale: float = 1.0
    twiddle_period: int = 0
    united: int = 0
    halves: bool = False

    def phase(self, tables: Tables, target: Target) -> FftPhase:
        """What does it, with tables of roots."""
        lanes = lanes_of(self.dtype, self.count, target)
        n, width, sign = self.n, lanes.count, self.sign
        transform = line_transform(n, width, tables)
        source_points, target_points = n + (self.halves and sign > 0), n + (self.halves and sign < 0)
        half_bytes = max(transform.points, source_points, target_points) * width * self.dtype.bytes
        blocks = -(-self.count // width)
        numbers = LinesNumbers(
            blocks,
            self.count - width,
            half_bytes,
            source_points,
            *self.source[1:],
            target_points,
            *self.target[1:],
        )
        if self.scale != 1.0:
            scale = self.scale
            numbers = numbers._replace(scale=tables.real(("scale", scale), 1, lambda: np.array([scale])))
        if self.twiddle_period:
            numbers = numbers._replace(**self._twiddles(tables, self.twiddle_period, width))
        if self.united:
            columns, step = self.source.point, self.united
            numbers = numbers._replace(
                united=step,
                columns=tables.roots(2 * step, sign, columns),
                rows=tables.roots(2 * step, sign, -(-step // columns), columns),
            )
        if self.halves:
            numbers = numbers._replace(halves=tables.roots(2 * n, sign, (n + 1) // 2))
        on_stack = 2 * half_bytes <= STACK and not target.is_gpu
        code = LinesCode(
            self.dtype,
            width,
            self._tile(self.source, width),
            self._tile(self.target, width),
            sign > 0,
            self.count % width != 0,
            self.scale != 1.0,
            self.twiddle_period > 0,
            self.united > 0,
            self.halves,
            on_stack,
        )
        return FftPhase(
            code,
            self.source.array,
            self.target.array,
            (*transform, *numbers),
            self.groups * blocks,
            max(1, _POINTS // (n * width)),
            None if on_stack else 2 * half_bytes,
        )

    def _tile(self, layout: BatchLayout, lanes: int) -> int:
        return 0 if layout.line == 1 else SquareTile.of(self.dtype, min(lanes, self.n)).size

    def _twiddles(self, tables: Tables, period: int, lanes: int) -> dict[str, int]:
        """exp(sign 2 pi i point (line + lane) / p): of the line from two tables, of the lane from a third."""
        n, sign, bits = self.n, self.sign, (period.bit_length() + 1) // 2

        def near() -> np.ndarray:
            roots = plan.roots(period, sign, np.outer(np.arange(n), np.arange(lanes)))
            return np.stack([roots.real, roots.imag], axis=1)

        return {
            "bits": bits,
            "low": tables.roots(period, sign, 1 << bits),
            "high": tables.roots(period, sign, (period >> bits) + 1, 1 << bits),
            "near": tables.real(("near", period, n, sign, lanes), 2 * n * lanes, near),
        }


def lanes_of(dtype: DType, count: int, target: Target) -> Lanes:
    """The vectors that transform `count` lines."""
    lanes = target.registers.nbytes // dtype.real.bytes
    while count < lanes:
        lanes //= 2
    return Lanes(dtype, lanes)
