"""tanh, sinh, cosh and their inverses, by e^x - 1 and log(1 + x), which keep the digits of small arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.llvm.math.compensated import quotient
from xloom.llvm.math.exponential import SHORT_TAIL as EXP_TAIL
from xloom.llvm.math.exponential import TAIL as FULL_EXP_TAIL
from xloom.llvm.math.exponential import power_of_two, reduce
from xloom.llvm.math.logarithm import SHORT_TAIL as LOG_TAIL
from xloom.llvm.math.logarithm import log1p_from_minus_one
from xloom.llvm.math.scalar import F32, Scalar, clamp, emitter, fma, in_double, select

# sinh and cosh of more are infinite in f64
_OVERFLOW = 710.4758600739439


@emitter
def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent, (e^2x - 1) / (e^2x + 1)."""
    # from the bound on the result is 1
    y, n = reduce(clamp(x.abs() * 2.0, None, 20.0 if x.format is F32 else 44.0), FULL_EXP_TAIL[x.format])
    power = power_of_two(n)
    grown = fma(power, y, power - 1.0)
    total = grown + 2.0
    return quotient(grown, total, grown - (total - 2.0)).copysign(x)


@emitter
def sinh(x: Scalar) -> Scalar:
    """The hyperbolic sine, (t + t / (t + 1)) / 2 with t = e^x - 1."""
    return in_double(_sinh, EXP_TAIL, x)


def _sinh(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    y, n = reduce(size, tail)
    power = power_of_two(n, -2)  # a quarter of 2^n, which may overflow
    half = fma(power, y, power - 0.25) * 2.0
    result = select(size > _OVERFLOW, math.inf, half + half / (half + half + 1.0)).copysign(x)
    return select(size < 2.0**-28, x, result)


@emitter
def cosh(x: Scalar) -> Scalar:
    """The hyperbolic cosine, (e^x + e^-x) / 2."""
    return in_double(_cosh, EXP_TAIL, x)


def _cosh(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    y, n = reduce(size, tail)
    power = power_of_two(n, -2)
    half = fma(power, y, power) * 2.0
    return select(size > _OVERFLOW, math.inf, half + 0.25 / half)


@emitter
def asinh(x: Scalar) -> Scalar:
    """The inverse of sinh, log(x + sqrt(x^2 + 1))."""
    return in_double(_asinh, LOG_TAIL, x)


def _asinh(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    large = size > 2.0**28  # log 2x, and x^2 may overflow
    square = size * size
    less_one = select(large, size - 1.0, size + square / ((square + 1.0).sqrt() + 1.0))
    return log1p_from_minus_one(less_one, tail, twice=large).copysign(x)


@emitter
def acosh(x: Scalar) -> Scalar:
    """The inverse of cosh, log(x + sqrt(x^2 - 1))."""
    return in_double(_acosh, LOG_TAIL, x)


def _acosh(tail: Sequence[float], x: Scalar) -> Scalar:
    large = x > 2.0**28
    t = x - 1.0
    less_one = select(large, t, t + (t * (t + 2.0)).sqrt())
    return select(t < 0.0, math.nan, log1p_from_minus_one(less_one, tail, twice=large))


@emitter
def atanh(x: Scalar) -> Scalar:
    """The inverse of tanh, log((1 + x) / (1 - x)) / 2."""
    return in_double(_atanh, LOG_TAIL, x)


def _atanh(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    double = size + size
    result = log1p_from_minus_one(double + double * size / (1.0 - size), tail) * 0.5
    return select(size > 1.0, math.nan, result).copysign(x)
