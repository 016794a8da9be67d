"""asin, acos, atan and atan2, computed in f64.

asin s = s + s^3 P(s^2) for |s| <= 1/2, from where on asin x = pi/2 - 2 asin sqrt((1 - x) / 2); error 2^-31 where the
result is rounded to f32 afterwards, else 2^-55. atan q = q + q^3 P(q^2) for |q| <= 1; error 2^-28, else 2^-55.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.llvm.math.scalar import F32, F64, Scalar, emitter, fma, in_double, polynomial, select

_ASIN_TAIL = {
    F32: (
        0.16666659871520464,
        0.07500510922005764,
        0.04451572152317487,
        0.03181758989960041,
        0.014402715295912989,
        0.037565022483948544,
    ),
    F64: (
        0.16666666666665378,
        0.07500000000343844,
        0.044642856822997894,
        0.030381959346630218,
        0.022371753230125486,
        0.01735977470752045,
        0.013884568959773367,
        0.012173442562861389,
        0.006510251045024674,
        0.01957532636849362,
        -0.016296009657231877,
        0.031960126368916986,
    ),
}
_ATAN_TAIL = {
    F32: (
        -0.3333330180645604,
        0.19998637377366335,
        -0.14265235330914525,
        0.10957534292788257,
        -0.0841936071195451,
        0.05823322296727037,
        -0.031454710559857345,
        0.011064079997808387,
        -0.0018271695343065613,
    ),
    F64: (
        -0.33333333333333093,
        0.19999999999955437,
        -0.14285714282801415,
        0.11111111013609495,
        -0.09090907118303533,
        0.07692281173686809,
        -0.066664148781278,
        0.05880591784778401,
        -0.05253801909124708,
        0.04723280367346554,
        -0.042216823352498906,
        0.03669277796788287,
        -0.029984343993221738,
        0.022083601588934104,
        -0.013993493459702477,
        0.0072622798672924375,
        -0.0029187781671706626,
        0.0008432827816792851,
        -0.00015475281476688409,
        1.3484802158821829e-05,
    ),
}
_HALF_PI = (math.pi / 2, 6.123233995736766e-17)


def _odd(s: Scalar, tail: Sequence[float]) -> Scalar:
    """s + s^3 P(s^2)."""
    z = s * s
    return fma(s * z, polynomial(z, tail), s)


@emitter
def asin(x: Scalar) -> Scalar:
    """The arc sine; NaN beyond 1."""
    return in_double(_asin, _ASIN_TAIL, x)


def _asin(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    large = size > 0.5
    angle = _odd(select(large, ((1.0 - size) * 0.5).sqrt(), size), tail)
    return select(large, _HALF_PI[0] - (angle + angle - _HALF_PI[1]), angle).copysign(x)


@emitter
def acos(x: Scalar) -> Scalar:
    """The arc cosine; NaN beyond 1."""
    return in_double(_acos, _ASIN_TAIL, x)


def _acos(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    large = size > 0.5
    angle = _odd(select(large, ((1.0 - size) * 0.5).sqrt(), x), tail)
    double = angle + angle
    near_pi = 2 * _HALF_PI[0] - (double - 2 * _HALF_PI[1])
    return select(large, select(x < 0.0, near_pi, double), _HALF_PI[0] - (angle - _HALF_PI[1]))


@emitter
def atan(x: Scalar) -> Scalar:
    """The arc tangent, in [-pi / 2, pi / 2]."""
    return in_double(_atan, _ATAN_TAIL, x)


def _atan(tail: Sequence[float], x: Scalar) -> Scalar:
    size = x.abs()
    large = size > 1.0
    angle = _odd(select(large, 1.0 / size, size), tail)
    return select(large, _HALF_PI[0] - (angle - _HALF_PI[1]), angle).copysign(x)


@emitter
def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), with the special cases of C."""
    return in_double(_atan2, _ATAN_TAIL, y, x)


def _atan2(tail: Sequence[float], y: Scalar, x: Scalar) -> Scalar:
    width, height = x.abs(), y.abs()
    steep = height > width
    low, high = select(steep, width, height), select(steep, height, width)
    # 0 / 0 is to be 0, also where the divisor is a subnormal constant, and infinity / infinity 1
    ratio = select(low.equals(0.0) & (high >= 0.0), low, select(low.equals(high), 1.0, low / high))
    angle = _odd(ratio, tail)
    angle = select(steep, _HALF_PI[0] - (angle - _HALF_PI[1]), angle)
    angle = select(x.bits() < 0, 2 * _HALF_PI[0] - (angle - 2 * _HALF_PI[1]), angle)
    return angle.copysign(y)
