"""log and log1p.

x = 2^k m with m between sqrt(1/2) and sqrt(2), and f = m - 1 exactly, so log x = k ln 2 + log(1 + f). In f32
log(1 + f) = f - f^2/2 + f^3 P(f), error 2^-27 of the result. In f64, with s = f / (2 + f), log(1 + f) = 2 atanh s
= f - (f^2/2 - s (f^2/2 + s^2 R(s^2))), error 2^-58 (2^-36 for results that are rounded to f32 afterwards).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.llvm.math.exponential import LN2
from xloom.llvm.math.scalar import F32, F64, Scalar, emitter, fma, polynomial, select

TAIL = {
    F32: (
        -0.5,
        0.333333313,
        -0.250008285,
        0.200012505,
        -0.166230813,
        0.142011032,
        -0.131625086,
        0.127672091,
        -0.0763485059,
    ),
    F64: (
        0.6666666666666735,
        0.399999999994101,
        0.28571428743399585,
        0.222221984682432,
        0.18183569885442172,
        0.1531390490784684,
        0.1479744535547359,
    ),
}
SHORT_TAIL = {
    F32: (0.6666666564207271, 0.400003360144737, 0.2853725275910368, 0.23583271770207426),
    F64: TAIL[F64],
}
"""For f64 arithmetic, by the format of the result."""


def split(x: Scalar) -> tuple[Scalar, Scalar]:
    """k and m of a positive normal x = 2^k m, sqrt(1/2) <= m < sqrt(2): k as an integer plus the bias."""
    form = x.format
    bits = x.bits()
    # counted from sqrt(1/2) the exponent field steps where m does
    k = (bits - (form.bits_of(math.sqrt(0.5)) - (form.bias << form.mantissa))) >> form.mantissa
    return k, (bits - ((k - form.bias) << form.mantissa)).as_float()


def to_float(k: Scalar) -> Scalar:
    """The exponent of `split` as a float: below 2^mantissa, the bits of 2^mantissa + k are 2^mantissa's or k."""
    form = k.format
    return (k | form.bits_of(2.0**form.mantissa)).as_float() - (2.0**form.mantissa + form.bias)


def multiple_of_least(x: Scalar) -> Scalar:
    """How many times the least number a positive subnormal x is: its bits.

    A product would be 0 where a program has no subnormal numbers, though LLVM has said of a constant that it is not 0.
    """
    unit = 2.0**x.format.mantissa
    return (x.bits() | x.format.bits_of(unit)).as_float() - unit


def parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """The exponent as a float and m of `split`, also where x is subnormal."""
    form = x.format
    subnormal = x < form.smallest_normal
    k, m = split(select(subnormal, multiple_of_least(x), x))
    exponent = to_float(k)
    return select(subnormal, exponent - (form.bias - 1.0 + form.mantissa), exponent), m


def of_parts(k: Scalar, f: Scalar, tail: Sequence[float]) -> Scalar:
    """k ln 2 + log(1 + f)."""
    high, low = LN2[k.format]
    if k.format is F32:
        return fma(k, high, f + fma(k, low, f * f * polynomial(f, tail)))
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    correction = fma(s, fma(z, polynomial(z, tail), half_square), k * low)
    return fma(k, high, f - (half_square - correction))


@emitter
def log(x: Scalar) -> Scalar:
    """The natural logarithm; NaN of negative numbers, -inf of zeros."""
    exponent, m = parts(x)
    result = of_parts(exponent, m - 1.0, TAIL[x.format])
    result = select(x < math.inf, result, x)  # infinity and NaN
    result = select(x < 0.0, math.nan, result)
    return select(x.equals(0.0), -math.inf, result)


def log1p_from_minus_one(x: Scalar, tail: Sequence[float], twice: Scalar | None = None) -> Scalar:
    """log(1 + x) of a number above -1 (or NaN); where `twice` holds, log(2 + 2x)."""
    form = x.format
    u = x + 1.0
    lost = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    k, m = split(u)
    # what the sum lost, in the units of m; from 2^60 on it does not count, and 2^-k may not be a normal number
    scale = (2 * form.bias - k) << form.mantissa
    correction = select(x > 2.0**60, 0.0, lost * scale.as_float())
    exponent = to_float(k)
    if twice is not None:
        exponent = select(twice, exponent + 1.0, exponent)
    return select(x < math.inf, of_parts(exponent, (m - 1.0) + correction, tail), x)


@emitter
def log1p(x: Scalar) -> Scalar:
    """log(1 + x), with the sign of x."""
    result = log1p_from_minus_one(x, TAIL[x.format])
    result = select(x < -1.0, math.nan, result)
    return select(x.equals(-1.0), -math.inf, result).copysign(x)


@emitter
def log1p_of_fraction(x: Scalar) -> Scalar:
    """log(1 + x) of a number from 0 to 1, or NaN: the same bits in fewer operations."""
    u = x + 1.0
    lost = x - (u - 1.0)
    large = u >= 2.0 * math.sqrt(0.5)  # where `split` steps
    m, correction = (select(large, part * 0.5, part) for part in (u, lost))
    exponent = select(large, 1.0, u.constant(0.0))
    return of_parts(exponent, (m - 1.0) + correction, TAIL[x.format])
