"""The spectrum of 2 n real points, and the transform of n complex ones that has them as real and imaginary parts.

With E the spectrum of the even points and O that of the odd ones, the transform is E + i O, and the spectrum
E + O exp(-pi i k / n). Points k and n - k of either are made of the same two of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from xloom.cpu.kernels.fft.line_memory import LineMemory
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.llvm.loop import loop
from xloom.llvm.types import I64

ComplexValue = Sequence[ir.Value]
"""The real and the imaginary part of a number, or of a vector of them."""


def separated(b: ir.IRBuilder, x: ComplexValue, y: ComplexValue, root: ComplexValue) -> tuple[Number, Number]:
    """Points k and n - k of the spectrum, of those of the transform."""
    even = [b.fadd(x[0], y[0]), b.fsub(x[1], y[1])]
    twiddled = product(b, [b.fadd(x[1], y[1]), b.fsub(y[0], x[0])], root)
    # of the other point both are the conjugates, and what is multiplied has the other sign
    near = [b.fadd(even[0], twiddled[0]), b.fadd(even[1], twiddled[1])]
    far = [b.fsub(even[0], twiddled[0]), b.fsub(twiddled[1], even[1])]
    return _halved(b, near), _halved(b, far)


def united(b: ir.IRBuilder, x: ComplexValue, y: ComplexValue, root: ComplexValue) -> tuple[Number, Number]:
    """Points k and n - k of the transform, of those of the spectrum."""
    even = [b.fadd(x[0], y[0]), b.fsub(x[1], y[1])]
    odd = product(b, [b.fsub(x[0], y[0]), b.fadd(x[1], y[1])], root)
    near = [b.fsub(even[0], odd[1]), b.fadd(even[1], odd[0])]
    far = [b.fadd(even[0], odd[1]), b.fsub(odd[0], even[1])]
    return _halved(b, near), _halved(b, far)


def separated_ends(b: ir.IRBuilder, x: ComplexValue) -> tuple[Number, Number]:
    """Points 0 and n of the spectrum, of point 0 of the transform."""
    nothing = ir.Constant(x[0].type, None)
    return [b.fadd(x[0], x[1]), nothing], [b.fsub(x[0], x[1]), nothing]


def united_ends(b: ir.IRBuilder, x: ComplexValue, y: ComplexValue) -> Number:
    """Point 0 of the transform, of points 0 and n of the spectrum."""
    return _halved(b, [b.fadd(x[0], y[0]), b.fsub(x[0], y[0])])


def conjugate(b: ir.IRBuilder, x: ComplexValue) -> Number:
    """The conjugate: what point n / 2 of either is of the other."""
    return [x[0], b.fneg(x[1])]


def separate(b: ir.IRBuilder, memory: LineMemory, data: ir.Value, n: ir.Value, roots: ir.Value) -> None:
    """Turns the n points of several lines' transforms into the n + 1 of their spectra, in place."""
    ends = separated_ends(b, memory.get(b, data, I64(0)))
    for point, value in zip((I64(0), n), ends, strict=True):
        memory.put(b, data, point, value)
    _pairs(b, memory, data, n, roots, separated)


def unite(b: ir.IRBuilder, memory: LineMemory, data: ir.Value, n: ir.Value, roots: ir.Value) -> None:
    """Turns the n + 1 points of several lines' spectra into the n of their transforms, in place."""
    first, last = (memory.get(b, data, k) for k in (I64(0), n))
    memory.put(b, data, I64(0), united_ends(b, first, last))
    _pairs(b, memory, data, n, roots, united)


_Pair = Callable[[ir.IRBuilder, ComplexValue, ComplexValue, ComplexValue], tuple[Number, Number]]


def _pairs(b: ir.IRBuilder, memory: LineMemory, data: ir.Value, n: ir.Value, roots: ir.Value, pair: _Pair) -> None:
    """Points k and n - k; of an even number, the one in the middle is its own other."""
    with b.if_then(b.icmp_unsigned("==", b.and_(n, I64(1)), I64(0))):
        middle = b.lshr(n, I64(1))
        memory.put(b, data, middle, conjugate(b, memory.get(b, data, middle)))
    with loop(b, 1, b.lshr(b.add(n, I64(1)), I64(1)), name="pair") as k:
        other = b.sub(n, k)
        near, far = pair(b, memory.get(b, data, k), memory.get(b, data, other), memory.root(b, roots, k))
        memory.put(b, data, k, near)
        memory.put(b, data, other, far)


def product(b: ir.IRBuilder, x: ComplexValue, y: ComplexValue) -> Number:
    """The complex product x y."""
    real = b.fsub(b.fmul(x[0], y[0]), b.fmul(x[1], y[1]))
    return [real, b.fadd(b.fmul(x[0], y[1]), b.fmul(x[1], y[0]))]


def _halved(b: ir.IRBuilder, z: Number) -> Number:
    kind = z[0].type
    half = ir.Constant(kind, [0.5] * kind.count if isinstance(kind, ir.VectorType) else 0.5)
    return [b.fmul(part, half) for part in z]
