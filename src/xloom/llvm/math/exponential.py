"""exp, expm1 and the logistic function.

e^x = 2^n (1 + y) with n the integer nearest to x / ln 2, r = x - n ln 2 in two steps of Cody and Waite, and
y = r + r^2 Q(r) where Q is a minimax polynomial of (e^r - 1 - r) / r^2 for |r| <= 0.3475. Errors of r^2 Q against e^r:
2^-28 in f32, 2^-58 in f64, and 2^-39 for results that are rounded to f32 afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from xloom.llvm.math.compensated import quotient
from xloom.llvm.math.scalar import F32, F64, Scalar, clamp, emitter, fma, polynomial, select
from xloom.llvm.target_module import target_of

LOG2_E = 1.4426950408889634
"""log2(e)."""
LEAST = {F32: -104.0, F64: -746.0}
"""Of less, e^x is rounded to 0."""
SMALL = {F32: -87.0, F64: LEAST[F64]}
"""Of less, e^x is below 2^-125, f32's first normal numbers, or in f64 rounded to 0."""
_LEAST_BIT = -149
"""The exponent of the last digit of f32's subnormal numbers."""
LN2 = {F32: (0.693147182464599609375, -1.904654323148236e-09), F64: (0.6931471805599453, 2.3190468138462996e-17)}

TAIL = {
    F32: (0.5, 0.166665182, 0.041666422, 0.00836899504, 0.00139388663),
    F64: (
        0.5000000000000013,
        0.16666666666666685,
        0.04166666666651062,
        0.008333333333315394,
        0.0013888888948285641,
        0.0001984126990071197,
        2.480148860405191e-05,
        2.755723048164465e-06,
        2.763176771157663e-07,
        2.5113549653746296e-08,
    ),
}
SHORT_TAIL = {
    F32: (
        0.49999999999511163,
        0.16666666786402995,
        0.041666667058234845,
        0.00833328075267705,
        0.0013888795832945533,
        0.00019909583936656718,
        2.4887876342908313e-05,
    ),
    F64: TAIL[F64],
}
"""For f64 arithmetic, by the format of the result."""


def reduce(
    x: Scalar, tail: Sequence[float], x_low: Scalar | None = None, ln2: Sequence[float] = ()
) -> tuple[Scalar, Scalar]:
    """y and n of e^(x + x_low) = 2^n (1 + y); n as an integer, with twice the bias added so that it is positive.

    `ln2` are the parts of ln 2, those of `LN2` unless given.
    """
    form = x.format
    # adding 1.5 * 2^mantissa leaves the nearest integer in the low bits
    rounder = 1.5 * 2.0**form.mantissa
    shifted = fma(x, LOG2_E, rounder + 2 * form.bias)
    n = shifted - (rounder + 2 * form.bias)
    r = x
    for part in ln2 or LN2[form]:
        r = fma(n, -part, r)
    if x_low is not None:
        r = r + x_low
    y = fma(r * r, polynomial(r, tail), r)
    return y, shifted.bits() - form.bits_of(rounder)


def power_of_two(biased: Scalar, extra: int = 0) -> Scalar:
    """2^(n + extra) of an n with twice the bias; it must be a normal number."""
    form = biased.format
    return ((biased - (form.bias - extra)) << form.mantissa).as_float()


def grown_power(y: Scalar, biased: Scalar, small: Scalar) -> Scalar:
    """2^n (1 + y), which may overflow or be subnormal; `small` where its logarithm is below `SMALL`."""
    if biased.format is F64:
        return _scaled(y, biased - 2 * F64.bias, vanishes=small)
    n = biased - 2 * F32.bias
    if not target_of(y.builder).is_x86:
        return _scaled(y, n)
    # A result that underflows takes these processors a hundred cycles, and masks of attention and tails of bell curves
    # are full of them. As a multiple of the least subnormal, it is its own bits; a sum with it takes no longer and is 0
    # where a program has no denormals.
    scaled = _scaled(y, n + select(small, n.constant(-_LEAST_BIT), 0))
    return select(small, scaled.nearest_integer().as_float() + 0.0, scaled)


def _scaled(y: Scalar, n: Scalar, vanishes: Scalar | None = None) -> Scalar:
    form = n.format
    if target_of(y.builder).has_scaling:
        grown = y + 1.0
        return (select(vanishes, 0.0, grown) if vanishes else grown).times_power_of_two(n)
    # two factors of 2^n, both of them normal numbers
    biased = n + 2 * form.bias
    half = biased >> 1
    first, second = (half << form.mantissa).as_float(), ((biased - half) << form.mantissa).as_float()
    return fma(first, y, first) * (select(vanishes, 0.0, second) if vanishes else second)


@emitter
def exp(x: Scalar) -> Scalar:
    """e^x."""
    high = 89.0 if x.format is F32 else 710.0
    return grown_power(*reduce(clamp(x, LEAST[x.format], high), TAIL[x.format]), x < SMALL[x.format])


@emitter
def expm1(x: Scalar) -> Scalar:
    """e^x - 1."""
    low, high = (-18.0, 89.0) if x.format is F32 else (-40.0, 710.0)
    y, n = reduce(clamp(x, low, high), TAIL[x.format])
    half_power = power_of_two(n, -1)  # 2^n itself may overflow where the result does not
    result = fma(half_power, y, half_power - 0.5) * 2.0
    # the sign of zero, and the last bit of subnormal numbers
    return select(x.abs() < 2.0 ** -(x.format.mantissa + 2), x, result)


@emitter
def logistic(x: Scalar) -> Scalar:
    """1 / (1 + e^-x), as e / (1 + e) with e = e^-|x| on the left."""
    size = x.abs()
    e = grown_power(*reduce(clamp(-size, LEAST[x.format], None), TAIL[x.format]), size > -SMALL[x.format])
    total = e + 1.0
    return quotient(select(x < 0.0, e, 1.0), total, e - (total - 1.0))
