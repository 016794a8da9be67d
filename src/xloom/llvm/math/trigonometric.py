"""sin, cos and tan, of every finite argument.

The angle comes in half-turns from the nearest multiple of pi (see `angle`), and is brought below a quarter by
sin(pi r) = cos(pi (1/2 - r)). There sin(pi t) = pi t + t^3 S(t^2) and cos(pi t) = 1 + t^2 C(t^2), with errors of 2^-34
where the result is rounded to f32 afterwards, else 2^-57; and tan(pi t) = pi t + t^3 T(t^2), its inverse the tangent of
the other angle, with errors of 2^-29 or 2^-59. f32 is computed in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from llvmlite import ir

from xloom.llvm.math.angle import half_turns_f32, half_turns_f64, half_turns_of_small, half_turns_of_small_f32
from xloom.llvm.math.scalar import F32, F64, Format, Scalar, emitter, fma, polynomial, select

_SINE = {
    F32: (-5.167712772274748, 2.5501628306223076, -0.5992060467623798, 0.08103004422469703),
    F64: (
        -5.16771278004996,
        2.5501640398740593,
        -0.5992645289781182,
        0.0821458702213523,
        -0.007370035037562763,
        0.0004615984469265437,
    ),
}
_COSINE = {
    F32: (-4.9348021733742895, 4.058707900020817, -1.3350583238535394, 0.23142822622649534),
    F64: (
        -4.934802200544679,
        4.0587121264166655,
        -1.3352627688432153,
        0.23533062976979544,
        -0.02580687539162255,
        0.0019293430428697809,
        -0.00010299477381064257,
    ),
}
_TANGENT = {
    F32: (
        10.335430664838414,
        40.80056999057413,
        163.2772971706454,
        634.376519919219,
        3188.6383848727746,
        250.93475332190198,
        125461.4175611105,
    ),
    F64: (
        10.335425560099955,
        40.80262463801372,
        162.99995198887055,
        651.9097521971474,
        2607.6001864545224,
        10430.304150969874,
        41727.384681508614,
        166566.38253814142,
        680113.0559851808,
        2310789.357559447,
        18121786.412356254,
        -66799176.56922463,
        1271586052.5514803,
        -6263280276.226106,
        25099823072.418095,
    ),
}
_PI_LOW = 1.2246467991473532e-16
"""π less the f64 next to it."""
_SIGN = 1 << 63
"""The sign bit of an f64."""


class _Angle(NamedTuple):
    """|x| = pi (n + r), r = t or 1/2 - t but for its sign; everything in f64."""

    t: Scalar
    t_low: Scalar | None
    """What rounding left of t (for f64)."""
    swapped: Scalar
    """Whether r is 1/2 - t."""
    sign: Scalar
    """In the highest bit, the sign of r."""
    parity: Scalar
    """In the highest bit, whether n is odd."""


def _angle(x: Scalar, is_small: bool) -> _Angle:
    size = x.abs().to(F64)
    r_low = None
    if x.format is F32:
        r, n = (half_turns_of_small_f32 if is_small else half_turns_f32)(size)
    else:
        r, r_low, n = (half_turns_of_small if is_small else half_turns_f64)(size)
    sign = r.bits() & _SIGN
    r_size = r.abs()
    other = 0.5 - r_size
    swapped = other < r_size
    t = select(swapped, other, r_size)  # the lesser one, by one instruction
    if r_low is not None:
        r_low = (r_low.bits() ^ sign).as_float()
        r_low = select(swapped, -r_low, r_low)
    return _Angle(t, r_low, swapped, sign, n << 63)


def _sine_and_cosine(angle: _Angle, form: Format) -> tuple[Scalar, Scalar]:
    """Of pi t."""
    t, t_low = angle.t, angle.t_low
    z = t * t
    if t_low is None:
        return t * fma(z, polynomial(z, _SINE[form]), math.pi), fma(z, polynomial(z, _COSINE[form]), 1.0)
    sine = fma(t, math.pi, fma(t, fma(z, polynomial(z, _SINE[form]), _PI_LOW), t_low * math.pi))
    cosine = fma(z, polynomial(z, _COSINE[form]), t * t_low * -(math.pi**2)) + 1.0
    return sine, cosine


def _tangent(angle: _Angle, form: Format) -> Scalar:
    """Of pi t."""
    t, t_low = angle.t, angle.t_low
    z = t * t
    if t_low is None:
        return t * fma(z, polynomial(z, _TANGENT[form]), math.pi)
    slope = fma(z, 16 * math.pi, math.pi)  # near enough
    return fma(t, math.pi, fma(t, fma(z, polynomial(z, _TANGENT[form]), _PI_LOW), t_low * slope))


def _finish(x: Scalar, size: Scalar, sign: Scalar, is_small: bool) -> Scalar:
    """`size` with its sign changed where the highest bit of `sign` is set, in the format of x; NaN of an infinity."""
    result = (size.bits() ^ sign).as_float().to(x.format)
    if x.format is F32 or is_small:
        return result  # infinity has become NaN on the way
    return select(x.abs() < math.inf, result, x - x)  # of a NaN, with its sign


def _keep_small(x: Scalar, result: Scalar) -> Scalar:
    """x itself where it is the nearest number to its sine and tangent; a subnormal f64 has lost digits on the way."""
    return result if x.format is F32 else select(x.abs() < 2.0**-28, x, result)


def _sign_bit(x: Scalar) -> Scalar:
    return x.to(F64).bits() & _SIGN


def _sin(x: Scalar, *, is_small: bool) -> Scalar:
    angle = _angle(x, is_small)
    sine, cosine = _sine_and_cosine(angle, x.format)
    sign = angle.sign ^ angle.parity ^ _sign_bit(x)
    return _keep_small(x, _finish(x, select(angle.swapped, cosine, sine), sign, is_small))


def _cos(x: Scalar, *, is_small: bool) -> Scalar:
    angle = _angle(x, is_small)
    sine, cosine = _sine_and_cosine(angle, x.format)
    return _finish(x, select(angle.swapped, sine, cosine), angle.parity, is_small)


def _tan(x: Scalar, *, is_small: bool) -> Scalar:
    angle = _angle(x, is_small)
    tangent = _tangent(angle, x.format)
    size = select(angle.swapped, 1.0 / tangent, tangent)
    return _keep_small(x, _finish(x, size, angle.sign ^ _sign_bit(x), is_small))


@emitter
def sin(x: Scalar) -> Scalar:
    """The sine of x radians."""
    return _sin(x, is_small=False)


@emitter
def cos(x: Scalar) -> Scalar:
    """The cosine of x radians."""
    return _cos(x, is_small=False)


@emitter
def tan(x: Scalar) -> Scalar:
    """The tangent of x radians."""
    return _tan(x, is_small=False)


SMALL_ANGLES: dict[str, Callable[..., ir.Value]] = {
    opcode: emitter(partial(formula, is_small=True))
    for opcode, formula in (("sine", _sin), ("cosine", _cos), ("tan", _tan))
}
"""By HLO opcode, the functions of arguments below `SMALL`, which take half the time from x to the result."""
