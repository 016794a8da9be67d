"""Complex logarithms, powers and the cube root in f64."""

from __future__ import annotations

import math

from xloom.llvm.math.compensated import product, sum_of
from xloom.llvm.math.scalar import Scalar, select
from xloom.llvm.scalar.complex_pair import EXPONENT, Pair, Scale, choose, function, greatest
from xloom.llvm.scalar.complex_root import hypotenuse


def logarithm(z: Pair) -> Pair:
    """The principal logarithm log |z| + i arg z."""
    return Pair(_log_modulus(z, z.real.constant(0.0)), function("atan2", z.imag, z.real))


def logarithm_plus_one(z: Pair) -> Pair:
    """The principal logarithm of 1 + z."""
    x, error = sum_of(z.real.constant(1.0), z.real)
    return Pair(_log_modulus(Pair(x, z.imag), error), function("atan2", z.imag, x))


def _log_modulus(z: Pair, error: Scalar) -> Scalar:
    """log |z + error|, where `error` is a rounding error of z; also near modulus 1 to the last place."""
    scale = Scale.of(z)
    x, y = z.times(scale.power(1))
    square = x * x + y * y
    # near modulus 1, log(1 + s) = log(u) + (1 + s - u) / u for u = 1 + s rounded
    s = _square_less_one(z, error)
    u, lost = sum_of(s.constant(1.0), s)
    size = greatest(z)
    near = (size > 0.5) & (size < 2.0)
    log = function("log", select(near, u, square)) + select(near, lost / u, 0.0)
    offset = EXPONENT * math.log(2)
    return select(z.is_infinite(), math.inf, log * 0.5 + scale.pick(offset, -offset, 0.0))


def _square_less_one(z: Pair, error: Scalar) -> Scalar:
    """|z + error|**2 - 1, from exact squares and sums."""
    x, y = z
    p, p_low = product(x, x)
    q, q_low = product(y, y)
    partial, first = sum_of(p, p.constant(-1.0))
    total, second = sum_of(partial, q)
    return total + (p_low + q_low + x * error * 2.0 + (first + second))


def power(x: Pair, y: Pair) -> Pair:
    """x**y = |x|**c e**(-d arg x) e**(i (c arg x + d log |x|)) for y = c + i d; x**0 is 1, and 0**y 0 for c > 0."""
    c, d = y
    log, angle = logarithm(x)
    plain = d.equals(0.0)  # 0 times an infinite logarithm is 0 here
    size = function("power", hypotenuse(x), c) * select(plain, 1.0, function("exponential", -d * angle))
    argument = c * angle + select(plain, 0.0, d * log)
    result = Pair(function("cosine", argument), function("sine", argument)).times(size)
    none, one = c.constant(0.0), c.constant(1.0)
    result = choose(x.is_zero() & (c > 0.0), Pair(none, none), result)
    return choose(y.is_zero(), Pair(one, none), result)


def cube_root(z: Pair) -> Pair:
    """The principal cube root of a complex number."""
    size, third = function("cbrt", hypotenuse(z)), function("atan2", z.imag, z.real) / 3.0
    imag = select(third.equals(0.0), z.imag, size * function("sine", third))
    return Pair(size * function("cosine", third), imag)
