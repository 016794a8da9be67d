"""Complex functions made of the exponential: exp, hyperbolic and trigonometric functions, the logistic function.

Real parts of an infinite size in an unknown direction are infinite, as C99 has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xloom.llvm.math.scalar import F32, Scalar, select
from xloom.llvm.scalar.complex_pair import Pair, function, infinite, is_nan


@dataclass(frozen=True)
class _Size:
    """A size `value * rest` that grows exponentially with `origin`; `rest` is 1 until the product would overflow."""

    origin: Scalar
    value: Scalar
    rest: Scalar

    def scaled(self, factor: Scalar) -> Scalar:
        """Times a sine or cosine; 0 wins over infinity and NaN."""
        unsized = factor.equals(0.0) & ~(self.value.abs() < math.inf)
        settled = self.origin.equals(0.0) | ~(self.origin.abs() < math.inf)  # at sinh 0 and e**-inf
        indeterminate = self.value.equals(0.0) & settled & is_nan(factor)
        value = select(unsized, self.value.constant(1.0).copysign(self.value), self.value)
        return value * select(indeterminate, 1.0, factor) * self.rest

    def scaled_real(self, factor: Scalar) -> Scalar:
        """Times a sine or cosine, as the real part of a product: NaN does not win over an infinite size."""
        return select(infinite(self.origin) & infinite(self.value) & is_nan(factor), self.value, self.scaled(factor))


def _greatest_exponent(x: Scalar) -> float:
    """A number whose exponential is just finite."""
    return 88.0 if x.format is F32 else 709.0


def _exponential(x: Scalar) -> _Size:
    high = x > _greatest_exponent(x)
    value = function("exponential", select(high, x * 0.5, x))
    return _Size(x, value, select(high & (value < math.inf), value, 1.0))


def exponential(z: Pair) -> Pair:
    """e**z, in f32 or f64."""
    size, angle = _exponential(z.real), z.imag
    imag = select(angle.equals(0.0), angle, size.scaled(function("sine", angle)))
    return Pair(size.scaled_real(function("cosine", angle)), imag)


def exponential_minus_one(z: Pair) -> Pair:
    """e**z - 1: expm1(a) cos b - 2 sin(b/2)**2 + i e**a sin b."""
    angle = z.imag
    size, cosine, half = _exponential(z.real), function("cosine", angle), function("sine", angle * 0.5)
    less_one = function("exponential-minus-one", z.real) * cosine - half * half * 2.0
    real = select(z.real > _greatest_exponent(z.real), size.value * cosine * size.rest, less_one)
    return Pair(real, select(angle.equals(0.0), angle, size.value * function("sine", angle) * size.rest))


def _hyperbolic(x: Scalar) -> tuple[_Size, _Size]:
    """cosh x and sinh x, by t = e**|x| - 1."""
    high = x.abs() > _greatest_exponent(x)
    t = function("exponential-minus-one", select(high, x.abs() * 0.5, x.abs()))
    ratio = select(t.equals(math.inf), 1.0, t / (t + 1.0))
    sine = (t + ratio) * 0.5
    # of a great x, e**|x| / 2 is 2 (e**(|x|/2) / 2)**2
    cosine = select(high, sine, t * ratio * 0.5 + 1.0)
    rest = select(high & (t < math.inf), sine * 2.0, 1.0)
    return _Size(x, cosine, rest), _Size(x, sine.copysign(x), rest)


def cosh(z: Pair) -> Pair:
    """cosh a cos b + i sinh a sin b."""
    high, low = _hyperbolic(z.real)
    return Pair(high.scaled_real(function("cosine", z.imag)), low.scaled(function("sine", z.imag)))


def sinh(z: Pair) -> Pair:
    """sinh a cos b + i cosh a sin b."""
    high, low = _hyperbolic(z.real)
    return Pair(low.scaled_real(function("cosine", z.imag)), high.scaled(function("sine", z.imag)))


def cosine(z: Pair) -> Pair:
    """The cosine of a complex number: cosh(i z)."""
    return cosh(Pair(-z.imag, z.real))


def sine(z: Pair) -> Pair:
    """The sine of a complex number: -i sinh(i z)."""
    real, imag = sinh(Pair(-z.imag, z.real))
    return Pair(imag, -real)


def _decay(x: Scalar) -> tuple[Scalar, Scalar]:
    """e**-|x|, and 1 - e**-|x| without cancellation."""
    return function("exponential", -x.abs()), -function("exponential-minus-one", -x.abs())


def tanh(z: Pair) -> Pair:
    """(sinh 2a + i sin 2b) / (cosh 2a + cos 2b), both times 2 q for q = e**-2|a|, so that nothing overflows."""
    a, b = z
    q, rest = _decay(a + a)
    sine, cosine = function("sine", b), function("cosine", b)
    scale = rest * rest + q * cosine * cosine * 4.0
    real = (rest * (q + 1.0) / scale).copysign(a)
    imag = q * (sine * cosine) * 4.0 / scale
    # of an infinite b, the real part is sure at a = 0 and at a = inf, the imaginary one at a = inf
    endless = infinite(a)
    real = select(a.equals(0.0) & ~(b.abs() < math.inf), a, real)
    real = select(endless, a.constant(1.0).copysign(a), real)
    imag = select(endless, a.constant(0.0).copysign(sine * cosine), imag)
    return Pair(real, select(b.equals(0.0), b, imag))


def tan(z: Pair) -> Pair:
    """The tangent of a complex number: -i tanh(i z)."""
    real, imag = tanh(Pair(-z.imag, z.real))
    return Pair(imag, -real)


def logistic(z: Pair) -> Pair:
    """1 / (1 + e**-z), by q = e**-|a| and half the angle: |1 + q e**(ib)|**2 = (1 - q)**2 + 4 q cos(b/2)**2."""
    a, b = z
    q, rest = _decay(a)
    sine, cosine = function("sine", b * 0.5), function("cosine", b * 0.5)
    square = cosine * cosine
    scale = rest * rest + q * square * 4.0
    real = select(a >= 0.0, rest + q * square * 2.0, q * (square * 2.0 - rest)) / scale
    imag = q * (sine * cosine) * 2.0 / scale
    endless = a.equals(math.inf)
    real = select(endless, 1.0, real)
    imag = select(endless, a.constant(0.0).copysign(sine * cosine), imag)
    return Pair(real, select(b.equals(0.0), b, imag))
