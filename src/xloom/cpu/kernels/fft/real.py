"""Transforms from and to real lines: of half the length where that is even."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.dimensions import Dimensions, Pointer
from xloom.cpu.kernels.fft.half_spectrum import ComplexValue, conjugate, product, separated, separated_ends
from xloom.hlo.dtype import DType
from xloom.llvm import element_access
from xloom.llvm.loop import loop
from xloom.llvm.noalias import distinct
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.types import I64, Complex

_CHUNK = 1 << 10
"""Points whose roots of unity are in one table; those of chunks are in another."""
_POINTS = 20_000
"""Combined by one thread in about 20 µs."""


def forward(work: Dimensions, lines: int, n: int, source: Pointer, target: Pointer) -> None:
    """From lines of n real points to the first n // 2 + 1 complex ones; the others would be their conjugates."""
    half, dtype = n // 2, work.dtype
    _tell(n)
    if n % 2 == 0:
        # two real points lie in memory as one complex one
        if not work.halves(lines, half, source, target, 1.0):
            work.long_lines(lines, half, source, target, 1.0, (half, half + 1))
            _separate(work, lines, half, target)
        return
    wide, spectrum = work.scratch((lines, n)), work.scratch((lines, n))
    with _walk(work, lines, 0, n, source, wide) as w:
        x = w.get(dtype.real, n, w.point)
        w.put(dtype, n, w.point, Complex(x, ir.Constant(x.type, 0.0)))
    work.over((lines, n), [1], wide, spectrum, 1.0)
    with _walk(work, lines, 0, half + 1, spectrum, target) as w:
        w.put(dtype, half + 1, w.point, _real_first(w, w.get(dtype, n, w.point)))


def _tell(n: int) -> None:
    if n % 2 == 0:
        chosen(f"{n} real points as {n // 2} complex ones", "their number is even")
    else:
        chosen(f"{n} real points as complex ones without imaginary parts", "their number is odd")


def backward(work: Dimensions, lines: int, n: int, source: Pointer, target: Pointer, scale: float) -> None:
    """From n // 2 + 1 complex points to lines of n real ones; imaginary parts that would have to be 0 are not read."""
    half, dtype = n // 2, work.dtype
    _tell(n)
    if n % 2 == 0:
        if not work.halves(lines, half, source, target, scale):
            work.long_lines(lines, half, source, target, scale, (half + 1, half), united=True)
        return
    wide, result = work.scratch((lines, n)), work.scratch((lines, n))
    with _walk(work, lines, 0, half + 1, source, wide) as w:
        b, x = w.b, _real_first(w, w.get(dtype, half + 1, w.point))
        mirrored = b.select(b.icmp_signed("==", w.point, I64(0)), I64(0), b.sub(I64(n), w.point))
        w.put(dtype, n, mirrored, Complex(x.real, b.fneg(x.imag)))
        w.put(dtype, n, w.point, x)
    work.over((lines, n), [1], wide, result, scale)
    with _walk(work, lines, 0, n, result, target) as w:
        w.put(dtype.real, n, w.point, w.get(dtype, n, w.point).real)


def _real_first(w: _Walk, x: Complex) -> Complex:
    """Point 0 is the sum of real points: what rounding leaves in its imaginary part is dropped."""
    first = w.b.icmp_signed("==", w.point, I64(0))
    return Complex(x.real, w.b.select(first, ir.Constant(x.imag.type, 0.0), x.imag))


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
        return element_access.load(self.b, self.source, dtype, self.at(length, point))

    def put(self, dtype: DType, length: int, point: ir.Value, value: Any) -> None:
        """Writes a point of the line in the target."""
        element_access.store(self.b, self.target, dtype, self.at(length, point), value)

    def at(self, length: int, point: ir.Value) -> ir.Value:
        """Where a point of the line lies."""
        return self.b.add(self.b.mul(self.line, I64(length)), point)


@contextmanager
def _walk(work: Dimensions, lines: int, first: int, count: int, source: Pointer, target: Pointer) -> Iterator[_Walk]:
    """A phase: what is emitted in the `with` runs for points [first, count) of all lines."""
    work.kernel.pipeline = PassPipeline.ROWS
    chunks = -(-count // _CHUNK)
    with (
        work.kernel.phase(lines * chunks, max(1, _POINTS // min(count, _CHUNK))) as p,
        distinct(p.b, [source(p), target(p)], [p.begin, p.end]) as (b, (source_pointer, target_pointer), bounds),
        loop(b, *bounds, name="chunk") as item,
    ):
        line = b.udiv(item, I64(chunks))
        chunk = b.sub(item, b.mul(line, I64(chunks)))
        start = b.mul(chunk, I64(_CHUNK))
        stop = b.add(start, I64(_CHUNK))
        stop = b.select(b.icmp_signed("<", stop, I64(count)), stop, I64(count))
        start = b.select(b.icmp_signed("<", start, I64(first)), I64(first), start)
        with loop(b, start, stop, name="point") as point:
            yield _Walk(b, source_pointer, target_pointer, line, chunk, point)


def _separate(work: Dimensions, lines: int, half: int, array: Pointer) -> None:
    """In place: of each line the points before the last one."""
    dtype = work.dtype
    # the source stands for one half of each line, the target for the other
    with _walk(work, lines, 1, (half + 1) // 2, array, array) as w:
        b = w.b
        indices = w.at(half + 1, w.point), w.at(half + 1, b.sub(I64(half), w.point))
        x, y = (
            element_access.load(b, *side) for side in ((w.source, dtype, indices[0]), (w.target, dtype, indices[1]))
        )
        near, far = separated(b, x, y, _root(w, work, half))
        element_access.store(b, w.source, dtype, indices[0], Complex(*near))
        element_access.store(b, w.target, dtype, indices[1], Complex(*far))
    with _walk(work, lines, 0, 1, array, array) as w:
        start, end, middle = (w.at(half + 1, I64(k)) for k in (0, half, half // 2))
        ends = separated_ends(w.b, element_access.load(w.b, w.source, dtype, start))
        for index, value in zip((start, end), ends, strict=True):
            element_access.store(w.b, w.source, dtype, index, Complex(*value))
        if half % 2 == 0:
            value = conjugate(w.b, element_access.load(w.b, w.source, dtype, middle))
            element_access.store(w.b, w.source, dtype, middle, Complex(*value))


def _root(w: _Walk, work: Dimensions, half: int) -> ComplexValue:
    """exp(sign pi i point / half)."""
    b, dtype, sign = w.b, work.dtype, work.sign
    name = f"{work.kernel.name}.halves.{half}"
    near = plan.roots(2 * half, sign, np.arange(min(_CHUNK, half)))
    near_table = plan.table(b.module, dtype, name, near)
    if half <= _CHUNK:
        return element_access.load(b, near_table, dtype, w.point)
    far_table = plan.table(b.module, dtype, f"{name}.chunks", plan.roots(2 * half, sign, np.arange(0, half, _CHUNK)))
    within = b.sub(w.point, b.mul(w.chunk, I64(_CHUNK)))
    return product(
        b, element_access.load(b, near_table, dtype, within), element_access.load(b, far_table, dtype, w.chunk)
    )
