"""Transforms from and to real lines: of half the length where that is even."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.distinct import distinct
from xloom.cpu.emit.loop import loop
from xloom.cpu.emit.types import I64, Complex
from xloom.cpu.kernels.fourier import plan
from xloom.cpu.kernels.fourier.dimensions import Dimensions, Pointer
from xloom.hlo.dtype import DType

_CHUNK = 1 << 10
"""Points whose roots of unity are in one table; those of chunks are in another."""
_POINTS = 20_000
"""Combined by one thread in about 20 µs."""


def forward(work: Dimensions, lines: int, n: int, source: Pointer, target: Pointer) -> None:
    """From lines of n real points to the first n // 2 + 1 complex ones; the others would be their conjugates."""
    half, dtype = n // 2, work.dtype
    if n % 2 == 0:
        between = work.scratch((lines, half))
        # two real points lie in memory as one complex one
        work.over((lines, half), [1], source, between, 1.0)
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
        between = work.scratch((lines, half))
        _unite(work, lines, half, source, between)
        work.over((lines, half), [1], between, target, scale)
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
    line: ir.Value
    chunk: ir.Value
    point: ir.Value

    def get(self, dtype: DType, length: int, point: ir.Value) -> Any:
        """A point of the line in the source, where lines have `length` points."""
        return types.load(self.b, self.source, dtype, self._at(length, point))

    def put(self, dtype: DType, length: int, point: ir.Value, value: Any) -> None:
        """Writes a point of the line in the target."""
        types.store(self.b, self.target, dtype, self._at(length, point), value)

    def _at(self, length: int, point: ir.Value) -> ir.Value:
        return self.b.add(self.b.mul(self.line, I64(length)), point)


@contextmanager
def _walk(work: Dimensions, lines: int, first: int, count: int, source: Pointer, target: Pointer) -> Iterator[_Walk]:
    """A phase: what is emitted in the `with` runs for points [first, count) of all lines."""
    chunks = -(-count // _CHUNK)
    with (
        work.kernel.phase(lines * chunks, max(1, _POINTS // min(count, _CHUNK))) as p,
        distinct(p.b, [source(p), target(p)], [p.begin, p.end]) as (b, (given, wanted), bounds),
        loop(b, *bounds, name="chunk") as item,
    ):
        line = b.udiv(item, I64(chunks))
        chunk = b.sub(item, b.mul(line, I64(chunks)))
        start = b.mul(chunk, I64(_CHUNK))
        stop = b.add(start, I64(_CHUNK))
        stop = b.select(b.icmp_signed("<", stop, I64(count)), stop, I64(count))
        start = b.select(b.icmp_signed("<", start, I64(first)), I64(first), start)
        with loop(b, start, stop, name="point") as point:
            yield _Walk(b, given, wanted, line, chunk, point)


def _separate(work: Dimensions, lines: int, half: int, source: Pointer, target: Pointer) -> None:
    """The transform of even points, E, and of odd ones, O, from that of E + i O: E + O exp(-pi i k / half)."""
    dtype = work.dtype
    with _walk(work, lines, 1, half, source, target) as w:
        b = w.b
        x, y = w.get(dtype, half, w.point), w.get(dtype, half, b.sub(I64(half), w.point))
        even = Complex(b.fadd(x.real, y.real), b.fsub(x.imag, y.imag))
        odd = Complex(b.fadd(x.imag, y.imag), b.fsub(y.real, x.real))
        turned = _product(b, odd, _root(w, work, half))
        w.put(
            dtype,
            half + 1,
            w.point,
            _halved(b, Complex(b.fadd(even.real, turned.real), b.fadd(even.imag, turned.imag))),
        )
    with _walk(work, lines, 0, 1, source, target) as w:
        b, x = w.b, w.get(dtype, half, I64(0))
        zero = ir.Constant(x.real.type, 0.0)
        w.put(dtype, half + 1, I64(0), Complex(b.fadd(x.real, x.imag), zero))
        w.put(dtype, half + 1, I64(half), Complex(b.fsub(x.real, x.imag), zero))


def _unite(work: Dimensions, lines: int, half: int, source: Pointer, target: Pointer) -> None:
    """The inverse of `_separate`."""
    dtype = work.dtype
    with _walk(work, lines, 1, half, source, target) as w:
        b = w.b
        x, y = w.get(dtype, half + 1, w.point), w.get(dtype, half + 1, b.sub(I64(half), w.point))
        even = Complex(b.fadd(x.real, y.real), b.fsub(x.imag, y.imag))
        turned = Complex(b.fsub(x.real, y.real), b.fadd(x.imag, y.imag))
        odd = _product(b, turned, _root(w, work, half))
        w.put(dtype, half, w.point, _halved(b, Complex(b.fsub(even.real, odd.imag), b.fadd(even.imag, odd.real))))
    with _walk(work, lines, 0, 1, source, target) as w:
        b, x, y = w.b, w.get(dtype, half + 1, I64(0)).real, w.get(dtype, half + 1, I64(half)).real
        w.put(dtype, half, I64(0), _halved(b, Complex(b.fadd(x, y), b.fsub(x, y))))


def _halved(b: ir.IRBuilder, z: Complex) -> Complex:
    return Complex(*(b.fmul(part, ir.Constant(part.type, 0.5)) for part in z))


def _product(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    real = b.fsub(b.fmul(x.real, y.real), b.fmul(x.imag, y.imag))
    return Complex(real, b.fadd(b.fmul(x.real, y.imag), b.fmul(x.imag, y.real)))


def _root(w: _Walk, work: Dimensions, half: int) -> Complex:
    """exp(sign pi i point / half)."""
    b, dtype, sign = w.b, work.dtype, work.sign
    name = f"{work.kernel.name}.halves.{half}"
    near = plan.roots(2 * half, sign, np.arange(min(_CHUNK, half)))
    near_table = plan.table(b.module, dtype, name, near)
    if half <= _CHUNK:
        return types.load(b, near_table, dtype, w.point)
    far_table = plan.table(b.module, dtype, f"{name}.chunks", plan.roots(2 * half, sign, np.arange(0, half, _CHUNK)))
    within = b.sub(w.point, b.mul(w.chunk, I64(_CHUNK)))
    return _product(b, types.load(b, near_table, dtype, within), types.load(b, far_table, dtype, w.chunk))
