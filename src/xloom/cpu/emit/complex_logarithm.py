"""Complex logarithms, powers and the cube root in f64."""

from __future__ import annotations

import math

from xloom.cpu.emit.complex_pair import EXPONENT, Pair, Scale, choose, function, greatest
from xloom.cpu.emit.complex_root import hypotenuse
from xloom.cpu.math.scalar import Scalar, fma, select


def logarithm(z: Pair) -> Pair:
    """The principal logarithm log |z| + i arg z."""
    return Pair(_log_modulus(z, z.real.constant(0.0)), function("atan2", z.imag, z.real))


def logarithm_plus_one(z: Pair) -> Pair:
    """The principal logarithm of 1 + z."""
    x, error = _two_sum(z.real.constant(1.0), z.real)
    return Pair(_log_modulus(Pair(x, z.imag), error), function("atan2", z.imag, x))


def _log_modulus(z: Pair, error: Scalar) -> Scalar:
    """log |z + error|, where `error` is a rounding error of z; also near modulus 1 to the last place."""
    scale = Scale.of(z)
    x, y = z.times(scale.power(1))
    square = x * x + y * y
    # near modulus 1, log(1 + s) = log(u) + (1 + s - u) / u for u = 1 + s rounded
    s, s_low = _square_less_one(z, error)
    u, lost = _two_sum(s.constant(1.0), s)
    size = greatest(z)
    near = (size > 0.5) & (size < 2.0)
    log = function("log", select(near, u, square)) + select(near, (lost + s_low) / u, 0.0)
    offset = EXPONENT * math.log(2)
    return select(z.is_infinite(), math.inf, 0.5 * log + scale.pick(offset, -offset, 0.0))


def _square_less_one(z: Pair, error: Scalar) -> tuple[Scalar, Scalar]:
    """|z + error|**2 - 1 as a sum of two numbers that do not overlap."""
    x, y = z
    p, q = x * x, y * y
    partial, first = _two_sum(p, x.constant(-1.0))
    total, second = _two_sum(partial, q)
    low = fma(x, x, -p) + fma(y, y, -q) + 2 * x * error + (first + second)
    high = total + low
    return high, low - (high - total)


def _two_sum(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """x + y rounded, and its rounding error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def power(x: Pair, y: Pair) -> Pair:
    """x**y = |x|**c e**(-d arg x) e**(i (c arg x + d log |x|)) for y = c + i d; x**0 is 1, and 0**y 0 for c > 0."""
    c, d = y
    log, angle = logarithm(x)
    plain = d.equals(0.0)  # 0 times an infinite logarithm is 0 here
    size = function("power", hypotenuse(x), c) * select(plain, 1.0, function("exponential", -d * angle))
    turn = c * angle + select(plain, 0.0, d * log)
    result = Pair(function("cosine", turn), function("sine", turn)).times(size)
    none, one = c.constant(0.0), c.constant(1.0)
    result = choose(x.is_zero() & (c > 0.0), Pair(none, none), result)
    return choose(y.is_zero(), Pair(one, none), result)


def cube_root(z: Pair) -> Pair:
    """The principal cube root."""
    size, third = function("cbrt", hypotenuse(z)), function("atan2", z.imag, z.real) / 3
    imag = select(third.equals(0.0), z.imag, size * function("sine", third))
    return Pair(size * function("cosine", third), imag)
