"""Powers and roots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from llvmlite import ir

from xloom.llvm.math import logarithm
from xloom.llvm.math.compensated import product, sum_ordered
from xloom.llvm.math.exponential import LEAST, SHORT_TAIL, SMALL, grown_power, power_of_two, reduce
from xloom.llvm.math.scalar import F32, F64, Scalar, clamp, emitter, fma, in_double, polynomial, select


@emitter
def sqrt(x: Scalar) -> Scalar:
    """The square root, rounded correctly; NaN of negative numbers."""
    return x.sqrt()


@emitter
def rsqrt(x: Scalar) -> Scalar:
    """1 / sqrt(x)."""
    return 1.0 / x.sqrt()


# m^(-1/3) for 1 <= m <= 2, error 2^-14
_INVERSE_ROOT = (1.6699927209666627, -1.172840527072057, 0.695441350866199, -0.2212191400015435, 0.02858790300946403)


@emitter
def cbrt(x: Scalar) -> Scalar:
    """The cube root, which has the sign of its operand."""
    subnormal = x.abs() < x.format.smallest_normal if x.format is F64 else None
    return _cbrt(x.to(F64), subnormal, refined=x.format is F64).to(x.format)


def _cbrt(x: Scalar, subnormal: Scalar | None, refined: bool) -> Scalar:
    """The root of 2^(3q + e) m, 1 <= m < 2, 0 <= e <= 2."""
    size = x.abs()
    if subnormal is not None:
        size = select(subnormal, logarithm.multiple_of_least(size), size)
    less_one = ((size.bits() >> 52) | F64.bits_of(2.0**52)).as_float() - (2.0**52 + 1.0)
    # of the exponent less one, a third to the nearest integer is a third of the exponent rounded down
    rounder = 1.5 * 2.0**52
    third = fma(less_one, 1 / 3, rounder)
    e = fma(third - rounder, -3.0, less_one + 1.0)
    q = third.bits() - (F64.bits_of(rounder) + 1023 // 3)
    m = ((size.bits() & ((1 << 52) - 1)) | F64.bits_of(1.0)).as_float()

    y = polynomial(m, _INVERSE_ROOT)
    y = y * select(e.equals(0.0), 1.0, select(e.equals(1.0), y.constant(2 ** (-1 / 3)), 2 ** (-2 / 3)))
    m = m * select(e.equals(0.0), 1.0, select(e.equals(1.0), m.constant(2.0), 4.0))
    # y (1 - h)^(-1/3) with h = 1 - m y^3, to third order: error 2^-38
    square = y * y
    h = fma(-m * y, square, 1.0)
    y = fma(y * h, fma(h, 2 / 9, 1 / 3), y)
    root = m * y * y
    if refined:  # a step of Newton's, its residue computed with one rounding
        square = root * root
        residue = fma(-square, root, m) - fma(root, root, -square) * root
        root = fma(residue, y * y * (1 / 3), root)
    scale = ((q + 1023) << 52).as_float()
    if subnormal is not None:
        scale = select(subnormal, scale * 2.0 ** (-1074 // 3), scale)  # the least number is 2^-1074
    keep = x.equals(0.0) | ~(x.abs() < math.inf)
    return select(keep, x, (root * scale).copysign(x))


@emitter
def pow(x: Scalar, y: Scalar) -> Scalar:
    """x^y, with the special cases of C."""
    size = x.abs()
    if x.format is F32:
        magnitude = in_double(_power_f32, SHORT_TAIL, size, y)
    else:
        magnitude = _power_f64(size, y)
    integral = y.rint().equals(y)
    half = y * 0.5
    odd = integral & ~half.rint().equals(half)
    result = magnitude.copysign(select(odd, x, x.constant(1.0)))
    return select((x < 0.0) & (x > -math.inf) & ~integral, math.nan, result)


def _root(x: Scalar) -> Scalar:
    """x^0.5, which is not the square root: it is +0 of -0, and infinite of -inf."""
    return select(x.equals(-math.inf), math.inf, x.sqrt() + 0.0)


# no more exponents below -1: inverses of products are wrong where these overflow, and products of inverses to 2 units
_OF_KNOWN_EXPONENTS: dict[float, Callable[[Scalar], Scalar]] = {
    -1.0: lambda x: 1.0 / x,
    -0.5: lambda x: 1.0 / _root(x),
    0.25: lambda x: _root(x).sqrt(),
    0.5: _root,
    1.0: lambda x: x,
    1.5: lambda x: x.abs() * _root(x),
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}


def pow_of_known_exponent(exponent: float) -> Callable[..., ir.Value] | None:
    """x^exponent of x with the special cases of C, where products and roots take less than `pow`."""
    formula = _OF_KNOWN_EXPONENTS.get(exponent)
    return emitter(formula) if formula is not None else None


def _power_f32(tail: Sequence[float], size: Scalar, y: Scalar) -> Scalar:
    """size^y of f32 in f64, where no f32 is subnormal and no power of them overflows."""
    k, m = logarithm.split(size)
    log = logarithm.of_parts(logarithm.to_float(k), m - 1.0, logarithm.SHORT_TAIL[F32])
    log = _log_or_limit(size, log)
    exponent = _exponent(y, log, y * log)
    grown, n = reduce(clamp(exponent, -200.0, 200.0), tail)
    power = power_of_two(n)
    return fma(power, grown, power)


def _power_f64(size: Scalar, y: Scalar) -> Scalar:
    """size^y; y log(size) needs ten bits more than f64 has, so it is a sum of two."""
    log, log_low = _log_in_two(size)
    log = _log_or_limit(size, log)
    exponent, lost = product(y, log)
    # what is lost is NaN where the product overflows
    exponent_low = select(exponent.abs() < 1000.0, fma(y, log_low, lost), 0.0)
    exponent = _exponent(y, log, exponent)
    reduced = reduce(clamp(exponent, LEAST[F64], 710.0), SHORT_TAIL[F64], exponent_low)
    return grown_power(*reduced, exponent < SMALL[F64])


def _log_or_limit(size: Scalar, log: Scalar) -> Scalar:
    """The logarithm, which has been computed as if `size` were a positive number, also of 0, infinity and NaN."""
    return select(size.equals(0.0), -math.inf, select(size < math.inf, log, size))


def _exponent(y: Scalar, log: Scalar, product: Scalar) -> Scalar:
    """y log, where x^0 = 1 and 1^y = 1 whatever the other is."""
    return select(y.equals(0.0) | log.equals(0.0), 0.0, product)


# ln 2 as a sum whose first part has 21 zero bits at its end, so that its products with exponents are exact
_LN2 = (0.6931471803691238, 1.9082149292705877e-10)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
"""2/3 as a sum of two f64."""
# (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in powers of s^2, error 2^-65 of 2 atanh(s)
_ATANH_TAIL = (
    0.40000000000002267,
    0.28571428570092927,
    0.2222222252113499,
    0.18181784258779748,
    0.1538676242535018,
    0.13256696788501088,
    0.13197472350690917,
)


def _log_in_two(size: Scalar) -> tuple[Scalar, Scalar]:
    """log(size) as a sum of two, good to 2^-65: k ln 2 + 2 atanh(s) with s = (m - 1) / (m + 1)."""
    k, m = logarithm.parts(size)
    divisor = m + 1.0
    divisor_low = m - (divisor - 1.0)
    inverse = 1.0 / divisor
    s = (m - 1.0) * inverse
    s_low = fma(-s, divisor_low, fma(-s, divisor, m - 1.0)) * inverse
    square, lost = product(s, s)
    square_low = fma(s + s, s_low, lost)
    cube, lost = product(s, square)
    cube_low = fma(s, square_low, fma(s_low, square, lost))
    third, lost = product(cube, _TWO_THIRDS[0])
    third_low = fma(cube, _TWO_THIRDS[1], fma(cube_low, _TWO_THIRDS[0], lost))
    rest = fma(cube * square, polynomial(square, _ATANH_TAIL), third_low)

    log, log_low = sum_ordered(s + s, third)
    log_low = log_low + fma(s_low, 2.0, rest)
    total, total_low = sum_ordered(k * _LN2[0], log)
    total_low = total_low + fma(k, _LN2[1], log_low)
    return sum_ordered(total, total_low)
