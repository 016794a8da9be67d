"""Transforms from and to real lines: of half the length where that is even."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from xloom.cpu.content import Content
from xloom.cpu.emit import types
from xloom.cpu.emit.distinct import distinct
from xloom.cpu.emit.loop import loop
from xloom.cpu.emit.types import I64, Complex
from xloom.cpu.kernels.fourier import plan
from xloom.cpu.kernels.fourier.dimensions import Dimensions, Pointer
from xloom.cpu.kernels.fourier.halves import (
    Part,
    conjugate,
    product,
    separated,
    separated_ends,
    united,
    united_ends,
)
from xloom.cpu.kernels.linear.lanes import Number
from xloom.hlo.dtype import DType

_CHUNK = 1 << 10
"""Points whose roots of unity are in one table; those of chunks are in another."""
_POINTS = 20_000
"""Combined by one thread in about 20 µs."""


def forward(work: Dimensions, lines: int, n: int, source: Pointer, target: Pointer) -> None:
    """From lines of n real points to the first n // 2 + 1 complex ones; the others would be their conjugates."""
    half, dtype = n // 2, work.dtype
    if n % 2 == 0:
        # two real points lie in memory as one complex one
        if not work.halves(lines, half, source, target, 1.0):
            between = work.scratch((lines, half))
            work.over((lines, half), [1], source, between, 1.0, through=target)
            _separate(work, lines, half, between, target)
        return
    wide, spectrum = work.scratch((lines, n)), work.scratch((lines, n))
    with _walk(work, lines, 0, n, source, wide) as w:
        x = w.get(dtype.real, n, w.point)
        w.put(dtype, n, w.point, Complex(x, ir.Constant(x.type, 0.0)))
    work.over((lines, n), [1], wide, spectrum, 1.0)
    with _walk(work, lines, 0, half + 1, spectrum, target) as w:
        w.put(dtype, half + 1, w.point, w.get(dtype, n, w.point))


def backward(work: Dimensions, lines: int, n: int, source: Pointer, target: Pointer, scale: float) -> None:
    """From n // 2 + 1 complex points to lines of n real ones; imaginary parts that would have to be 0 are not read."""
    half, dtype = n // 2, work.dtype
    if n % 2 == 0:
        if not work.halves(lines, half, source, target, scale):
            _unite(work, lines, half, source, target)
            work.over((lines, half), [1], target, target, scale)
        return
    wide, result = work.scratch((lines, n)), work.scratch((lines, n))
    with _walk(work, lines, 0, half + 1, source, wide) as w:
        b, x = w.b, w.get(dtype, half + 1, w.point)
        first = b.icmp_signed("==", w.point, I64(0))
        x = Complex(x.real, b.select(first, ir.Constant(x.imag.type, 0.0), x.imag))
        mirrored = b.select(first, I64(0), b.sub(I64(n), w.point))
        w.put(dtype, n, mirrored, Complex(x.real, b.fneg(x.imag)))
        w.put(dtype, n, w.point, x)
    work.over((lines, n), [1], wide, result, scale)
    with _walk(work, lines, 0, n, result, target) as w:
        w.put(dtype.real, n, w.point, w.get(dtype, n, w.point).real)


class _Walk(NamedTuple):
    """The body of a loop over the points of lines."""

    b: ir.IRBuilder
    source: ir.Value
    target: ir.Value
    far: ir.Value
    """The target, for other points of it."""
    line: ir.Value
    chunk: ir.Value
    point: ir.Value

    def get(self, dtype: DType, length: int, point: ir.Value) -> Any:
        """A point of the line in the source, where lines have `length` points."""
        return types.load(self.b, self.source, dtype, self._at(length, point))

    def put(self, dtype: DType, length: int, point: ir.Value, value: Any) -> None:
        """Writes a point of the line in the target."""
        types.store(self.b, self.target, dtype, self._at(length, point), value)

    def put_pair(self, dtype: DType, length: int, half: int, values: tuple[Number, Number]) -> None:
        """Writes the point, and the one as far from point `half`."""
        near, far = values
        self.put(dtype, length, self.point, Complex(*near))
        types.store(self.b, self.far, dtype, self._at(length, self.b.sub(I64(half), self.point)), Complex(*far))

    def _at(self, length: int, point: ir.Value) -> ir.Value:
        return self.b.add(self.b.mul(self.line, I64(length)), point)


@contextmanager
def _walk(work: Dimensions, lines: int, first: int, count: int, source: Pointer, target: Pointer) -> Iterator[_Walk]:
    """A phase: what is emitted in the `with` runs for points [first, count) of all lines."""
    work.kernel.content = Content.ROWS
    chunks = -(-count // _CHUNK)
    with (
        work.kernel.phase(lines * chunks, max(1, _POINTS // min(count, _CHUNK))) as p,
        distinct(p.b, [source(p), target(p), target(p)], [p.begin, p.end]) as (b, (given, wanted, far), bounds),
        loop(b, *bounds, name="chunk") as item,
    ):
        line = b.udiv(item, I64(chunks))
        chunk = b.sub(item, b.mul(line, I64(chunks)))
        start = b.mul(chunk, I64(_CHUNK))
        stop = b.add(start, I64(_CHUNK))
        stop = b.select(b.icmp_signed("<", stop, I64(count)), stop, I64(count))
        start = b.select(b.icmp_signed("<", start, I64(first)), I64(first), start)
        with loop(b, start, stop, name="point") as point:
            yield _Walk(b, given, wanted, far, line, chunk, point)


def _separate(work: Dimensions, lines: int, half: int, source: Pointer, target: Pointer) -> None:
    dtype = work.dtype
    with _walk(work, lines, 1, (half + 1) // 2, source, target) as w:
        b = w.b
        x, y = w.get(dtype, half, w.point), w.get(dtype, half, b.sub(I64(half), w.point))
        w.put_pair(dtype, half + 1, half, separated(b, x, y, _root(w, work, half)))
    with _walk(work, lines, 0, 1, source, target) as w:
        first, last = separated_ends(w.b, w.get(dtype, half, I64(0)))
        w.put(dtype, half + 1, I64(0), Complex(*first))
        w.put(dtype, half + 1, I64(half), Complex(*last))
        if half % 2 == 0:
            middle = I64(half // 2)
            w.put(dtype, half + 1, middle, Complex(*conjugate(w.b, w.get(dtype, half, middle))))


def _unite(work: Dimensions, lines: int, half: int, source: Pointer, target: Pointer) -> None:
    dtype = work.dtype
    with _walk(work, lines, 1, (half + 1) // 2, source, target) as w:
        b = w.b
        x, y = w.get(dtype, half + 1, w.point), w.get(dtype, half + 1, b.sub(I64(half), w.point))
        w.put_pair(dtype, half, half, united(b, x, y, _root(w, work, half)))
    with _walk(work, lines, 0, 1, source, target) as w:
        ends = (w.get(dtype, half + 1, I64(k)) for k in (0, half))
        w.put(dtype, half, I64(0), Complex(*united_ends(w.b, *ends)))
        if half % 2 == 0:
            middle = I64(half // 2)
            w.put(dtype, half, middle, Complex(*conjugate(w.b, w.get(dtype, half + 1, middle))))


def _root(w: _Walk, work: Dimensions, half: int) -> Part:
    """exp(sign pi i point / half)."""
    b, dtype, sign = w.b, work.dtype, work.sign
    name = f"{work.kernel.name}.halves.{half}"
    near = plan.roots(2 * half, sign, np.arange(min(_CHUNK, half)))
    near_table = plan.table(b.module, dtype, name, near)
    if half <= _CHUNK:
        return types.load(b, near_table, dtype, w.point)
    far_table = plan.table(b.module, dtype, f"{name}.chunks", plan.roots(2 * half, sign, np.arange(0, half, _CHUNK)))
    within = b.sub(w.point, b.mul(w.chunk, I64(_CHUNK)))
    return product(b, types.load(b, near_table, dtype, within), types.load(b, far_table, dtype, w.chunk))
