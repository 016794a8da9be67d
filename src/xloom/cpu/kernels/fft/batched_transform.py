"""A phase that transforms lines of an array: gathers some into the lanes of vectors, transforms, and scatters them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.half_spectrum import separate, unite, united
from xloom.cpu.kernels.fft.transform import Transform
from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar
from xloom.cpu.kernels.linalg.tile_transpose import SquareTile
from xloom.hlo.dtype import DType
from xloom.llvm.loop import allocate, loop
from xloom.llvm.register_transpose import transposed
from xloom.llvm.target import Target
from xloom.llvm.types import I8, I32, I64, i64

_STACK = (1 << 19) + (1 << 10)
"""Bytes of two buffers up to which they lie on the stack."""
_POINTS = 8_000
"""Transformed by one thread in about 20 µs."""


class BatchLayout(NamedTuple):
    """Where lines lie: a pointer, and the distances of groups of lines, of points of a line, and of lines.

    Either points or lines are neighbours.
    """

    pointer: Callable[[PhaseBuilder], ir.Value]
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

    @property
    def points(self) -> tuple[int, int]:
        """Points of a line in the source, and in the target."""
        return self.n + (self.halves and self.sign > 0), self.n + (self.halves and self.sign < 0)

    def emit(self, kernel: Kernel) -> None:
        """Adds the kernel's phase, whose items are groups of lines."""
        lanes = lanes_of(self.dtype, self.count, kernel.target)
        transform = Transform(kernel.module, kernel.name, lanes, self.n, self.sign)
        blocks = -(-self.count // lanes.count)
        nbytes = 2 * max(transform.points, *self.points) * transform.point_bytes
        scratch = None if nbytes <= _STACK else kernel.add_scratch(self.groups * blocks * nbytes)
        grain = max(1, _POINTS // (self.n * lanes.count))
        with kernel.phase(self.groups * blocks, grain) as p:
            b = p.b
            local: Any = None
            if scratch is None:
                local = allocate(b, I8, nbytes)
                local.align = 64
            with loop(b, p.begin, p.end, name="lines") as item:
                group = b.udiv(item, i64(blocks))
                # the last vector may do some lines of the one before again
                own = b.mul(b.sub(item, b.mul(group, i64(blocks))), I64(lanes.count))
                last = i64(self.count - lanes.count)
                first = b.select(b.icmp_signed("<", own, last), own, last)
                data = local
                if scratch is not None:
                    data = b.gep(p.scratch(scratch), [b.mul(item, I64(nbytes))], inbounds=True, source_etype=I8)
                spare = b.gep(data, [I64(nbytes // 2)], inbounds=True, source_etype=I8)
                # the lines before its own may have been written by then
                work = _Work(b, self, transform, b.sub(own, first) if self.count % lanes.count else None)
                work.gather(self.source.pointer(p), self._first(b, self.source, group, first), data, first)
                if self.halves and self.sign > 0:
                    unite(b, transform, data)
                result = transform.emit(b, data, spare)
                if self.halves and self.sign < 0:
                    separate(b, transform, result)
                work.scatter(self.target.pointer(p), self._first(b, self.target, group, first), result)

    def _first(self, b: ir.IRBuilder, layout: BatchLayout, group: ir.Value, line: ir.Value) -> ir.Value:
        return b.add(b.mul(group, I64(layout.group)), b.mul(line, I64(layout.line)))


def lanes_of(dtype: DType, count: int, target: Target) -> Lanes:
    """The vectors that transform `count` lines."""
    lanes = target.registers.nbytes // dtype.real.bytes
    while count < lanes:
        lanes //= 2
    return Lanes(dtype, lanes)


class _Work:
    """Moves a vector of lines in and out of a buffer."""

    def __init__(self, b: ir.IRBuilder, lines: BatchedTransform, transform: Transform, own: ir.Value | None):
        self.b, self.lines, self.transform, self.lanes = b, lines, transform, transform.lanes
        self.own = own

    def gather(self, pointer: ir.Value, first: ir.Value, data: ir.Value, line: ir.Value) -> None:
        """Fills the buffer; `line` is the number of the first line."""
        b, lanes, layout, n = self.b, self.lanes, self.lines.source, self.lines.points[0]
        if layout.line == 1 or n == 1:
            with loop(b, 0, n, name="point") as point:
                if self.lines.united:
                    value = self._united(pointer, b.sub(first, line), point, line)
                else:
                    value = lanes.load(b, pointer, b.add(first, b.mul(point, I64(layout.point))))
                if self.lines.twiddle_period:
                    value = lanes.product(b, value, self._twiddles(point, line))
                self.transform.put(b, data, point, [self._scaled(x) for x in value])
            return
        tile = SquareTile.of(lanes.dtype, min(lanes.count, n))
        with tile.along(b, I64(0), n) as point, loop(b, 0, lanes.count, tile.size, "lane") as k:
            index = b.add(b.add(first, point), b.mul(k, I64(layout.line)))
            rows = transposed(b, tile.load(b, pointer, index, layout.line))
            for i, row in enumerate(rows):
                parts = b.bitcast(row, ir.VectorType(lanes.kind.element, 2 * tile.size))
                for part in range(2):
                    x = self._scaled(_picked(b, parts, parts, [2 * m + part for m in range(tile.size)]))
                    b.store(x, self._part(data, b.add(point, I64(i)), part, k), align=lanes.dtype.real.bytes)

    def scatter(self, pointer: ir.Value, first: ir.Value, data: ir.Value) -> None:
        """Writes a buffer's points to the lines of an array that begin at element `first`."""
        b, lanes, layout, n = self.b, self.lanes, self.lines.target, self.lines.points[1]
        if layout.line == 1:
            with loop(b, 0, n, name="point") as point:
                value = self.transform.get(b, data, point)
                lanes.store(b, pointer, b.add(first, b.mul(point, I64(layout.point))), value, self.own)
            return
        tile = SquareTile.of(lanes.dtype, min(lanes.count, n))
        kind = ir.VectorType(lanes.kind.element, tile.size)
        with tile.along(b, I64(0), n) as point, loop(b, 0, lanes.count, tile.size, "lane") as k:
            columns = []
            for i in range(tile.size):
                parts = [
                    b.load(self._part(data, b.add(point, I64(i)), part, k), typ=kind, align=lanes.dtype.real.bytes)
                    for part in range(2)
                ]
                pairs = _picked(b, parts[0], parts[1], [m // 2 + tile.size * (m % 2) for m in range(2 * tile.size)])
                columns.append(b.bitcast(pairs, ir.VectorType(tile.element, tile.size)))
            index = b.add(b.add(first, point), b.mul(k, I64(layout.line)))
            tile.store(b, pointer, index, layout.line, transposed(b, columns))

    def _part(self, data: ir.Value, point: ir.Value, part: int, lane: ir.Value) -> ir.Value:
        b, count = self.b, self.lanes.count
        index = b.add(b.mul(point, I64(2 * count)), b.add(lane, I64(part * count)))
        return b.gep(data, [index], inbounds=True, source_etype=self.lanes.kind.element)

    def _scaled(self, x: Any) -> Any:
        if self.lines.scale == 1.0:
            return x
        return self.b.fmul(x, ir.Constant(x.type, [self.lines.scale] * x.type.count))

    def _united(self, pointer: ir.Value, group: ir.Value, point: ir.Value, line: ir.Value) -> Number:
        """A point of lines that are columns of what a spectrum is united to."""
        b, lanes, n, step = self.b, self.lanes, self.lines.united, self.lines.source.point
        index = b.add(b.mul(point, I64(step)), line)
        near = lanes.load(b, pointer, b.add(group, index))
        far = lanes.load(b, pointer, b.add(group, b.sub(I64(n + 1 - lanes.count), index)))
        back = list(range(lanes.count))[::-1]
        far = [_picked(b, x, x, back) for x in far]
        # the first and the last point of a spectrum are real, whatever is there
        is_first, zero = b.icmp_signed("==", index, I64(0)), lanes.kind.element(0.0)
        for x in (near, far):
            x[1] = b.select(is_first, b.insert_element(x[1], zero, I32(0)), x[1])
        name = f"{self.transform.prefix}.united.{n}"
        starts, steps = (
            plan.table(b.module, lanes.dtype, f"{name}.{part}", plan.roots(2 * n, self.lines.sign, numbers))
            for part, numbers in (("columns", np.arange(step)), ("rows", np.arange(0, n, step)))
        )
        row = lanes.splat(b, load_scalar(b, steps, lanes.dtype, point))
        return united(b, near, far, lanes.product(b, lanes.load(b, starts, line), row))[0]

    def _twiddles(self, point: ir.Value, line: ir.Value) -> list[Any]:
        """exp(sign 2 pi i point (line + lane) / p): of the line from two tables, of the lane from a third."""
        b, lanes, dtype, lines = self.b, self.lanes, self.lanes.dtype, self.lines
        twiddle_period, sign = lines.twiddle_period, lines.sign
        bits = (twiddle_period.bit_length() + 1) // 2
        name = f"{self.transform.prefix}.turns.{twiddle_period}.{sign}"
        low = plan.table(b.module, dtype, f"{name}.low", plan.roots(twiddle_period, sign, np.arange(1 << bits)))
        steps = np.arange((twiddle_period >> bits) + 1) << bits
        high = plan.table(b.module, dtype, f"{name}.high", plan.roots(twiddle_period, sign, steps))
        angle = b.mul(point, line)
        base = [
            lanes.splat(b, load_scalar(b, t, dtype, k))
            for t, k in ((low, b.and_(angle, I64((1 << bits) - 1))), (high, b.lshr(angle, I64(bits))))
        ]
        near = plan.roots(twiddle_period, sign, np.outer(np.arange(lines.n), np.arange(lanes.count)))
        vectors = np.stack([near.real, near.imag], axis=1)
        own = plan.table(b.module, dtype.real, f"{name}.lanes.{lines.n}", vectors)
        return lanes.product(b, lanes.product(b, *base), self.transform.get(b, own, point))


def _picked(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lane_numbers: list[int]) -> ir.Value:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lane_numbers)), lane_numbers))
