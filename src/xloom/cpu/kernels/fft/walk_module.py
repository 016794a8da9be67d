"""Functions that make complex lines of real ones and back, and spectra of transforms, point by point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir

from xloom.cpu.kernels.fft.half_spectrum import ComplexValue, conjugate, product, separated, separated_ends
from xloom.cpu.kernels.fft.line_memory import at, numbers
from xloom.cpu.kernels.fft.signatures import CHUNK, PHASE, WalkCode, WalkNumbers
from xloom.hlo.dtype import DType
from xloom.llvm import element_access
from xloom.llvm.loop import loop
from xloom.llvm.module_text import module_text
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I64, Complex


def walk_module(code: WalkCode) -> str:
    """The module that has the function."""
    module = ir.Module()
    out = exported_function(module, PHASE, code.symbol)
    b = ir.IRBuilder(out.append_basic_block("entry"))
    source, target, tables, _, table, begin, end = out.args
    for pointer in (source, target):
        pointer.add_attribute("noalias")
    by = numbers(b, table, WalkNumbers)
    with loop(b, begin, end, name="chunk") as item:
        line = b.udiv(item, by.chunks)
        chunk = b.sub(item, b.mul(line, by.chunks))
        start = b.mul(chunk, I64(CHUNK))
        stop = b.add(start, I64(CHUNK))
        stop = b.select(b.icmp_signed("<", stop, by.count), stop, by.count)
        start = b.select(b.icmp_signed("<", start, by.first), by.first, start)
        with loop(b, start, stop, name="point") as point:
            _DOES[code.does](_Walk(b, code.dtype, source, target, tables, by, line, chunk, point))
    b.ret_void()
    return module_text(module)


@dataclass(frozen=True)
class _Walk:
    """The body of a loop over the points of lines."""

    b: ir.IRBuilder
    dtype: DType
    source: ir.Value
    target: ir.Value
    tables: ir.Value
    by: WalkNumbers
    line: ir.Value
    chunk: ir.Value
    point: ir.Value

    def get(self, dtype: DType, point: ir.Value) -> Any:
        """A point of the line in the source."""
        return element_access.load(self.b, self.source, dtype, self.at(self.by.source_length, point))

    def put(self, dtype: DType, point: ir.Value, value: Any) -> None:
        """Writes a point of the line in the target."""
        element_access.store(self.b, self.target, dtype, self.at(self.by.target_length, point), value)

    def at(self, length: Any, point: ir.Value) -> ir.Value:
        """Where a point of the line lies, of lines of a length."""
        return self.b.add(self.b.mul(self.line, length), point)


def _widen(w: _Walk) -> None:
    x = w.get(w.dtype.real, w.point)
    w.put(w.dtype, w.point, Complex(x, ir.Constant(x.type, 0.0)))


def _first_half(w: _Walk) -> None:
    w.put(w.dtype, w.point, _real_first(w, w.get(w.dtype, w.point)))


def _mirror(w: _Walk) -> None:
    b, x = w.b, _real_first(w, w.get(w.dtype, w.point))
    mirrored = b.select(b.icmp_signed("==", w.point, I64(0)), I64(0), b.sub(w.by.target_length, w.point))
    w.put(w.dtype, mirrored, Complex(x.real, b.fneg(x.imag)))
    w.put(w.dtype, w.point, x)


def _real_parts(w: _Walk) -> None:
    w.put(w.dtype.real, w.point, w.get(w.dtype, w.point).real)


def _separate(w: _Walk) -> None:
    """In place: of each line the points before the last one."""
    b, by = w.b, w.by
    near_point, far_point = w.point, b.sub(by.half, w.point)
    x, y = w.get(w.dtype, near_point), element_access.load(b, w.target, w.dtype, w.at(by.target_length, far_point))
    near, far = separated(b, x, y, _root(w))
    element_access.store(b, w.source, w.dtype, w.at(by.source_length, near_point), Complex(*near))
    w.put(w.dtype, far_point, Complex(*far))


def _separate_ends(w: _Walk) -> None:
    b, half = w.b, w.by.half
    ends = separated_ends(b, w.get(w.dtype, I64(0)))
    for point, value in zip((I64(0), half), ends, strict=True):
        element_access.store(b, w.source, w.dtype, w.at(w.by.source_length, point), Complex(*value))
    with b.if_then(b.icmp_unsigned("==", b.and_(half, I64(1)), I64(0))):
        middle = b.lshr(half, I64(1))
        value = conjugate(b, w.get(w.dtype, middle))
        element_access.store(b, w.source, w.dtype, w.at(w.by.source_length, middle), Complex(*value))


_DOES: dict[str, Callable[[_Walk], None]] = {
    "widen": _widen,
    "first_half": _first_half,
    "mirror": _mirror,
    "real_parts": _real_parts,
    "separate": _separate,
    "separate_ends": _separate_ends,
}


def _real_first(w: _Walk, x: Complex) -> Complex:
    """Point 0 is the sum of real points: what rounding leaves in its imaginary part is dropped."""
    first = w.b.icmp_signed("==", w.point, I64(0))
    return Complex(x.real, w.b.select(first, ir.Constant(x.imag.type, 0.0), x.imag))


def _root(w: _Walk) -> ComplexValue:
    """exp(sign pi i point / half)."""
    b, load = w.b, partial(element_access.load, w.b)
    within = b.sub(w.point, b.mul(w.chunk, I64(CHUNK)))
    near, far = (at(b, w.tables, place) for place in (w.by.near, w.by.far))
    return product(b, load(near, w.dtype, within), load(far, w.dtype, w.chunk))
