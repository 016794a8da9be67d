"""exp, the logistic function and tanh in f32, for results that are rounded to 16 bits or fewer: errors up to 2^-20.

The formulas are those of `exponential` and `hyperbolic`, with a polynomial of e^r that errs by 2^-21, and without the
digits that only f32 would show.
"""

from __future__ import annotations

from xloom.llvm.math.exponential import LEAST, SMALL, grown_power, power_of_two, reduce
from xloom.llvm.math.scalar import F32, Scalar, clamp, emitter, fma, select

_TAIL = (0.5, 0.16667114, 0.041823555, 0.0083125215)
_LN2 = (0.6931471805599453,)
"""Of (e^r - 1 - r) / r^2 in powers of r, error 2^-21 of e^r; and ln 2."""


def _reduced(x: Scalar) -> tuple[Scalar, Scalar]:
    return reduce(x, _TAIL, ln2=_LN2)


@emitter
def exp(x: Scalar) -> Scalar:
    """e^x."""
    return grown_power(*_reduced(clamp(x, LEAST[F32], 89.0)), x < SMALL[F32])


@emitter
def logistic(x: Scalar) -> Scalar:
    """1 / (1 + e^-x), as e / (1 + e) with e = e^-|x| on the left."""
    size = x.abs()
    e = grown_power(*_reduced(clamp(-size, LEAST[F32], None)), size > -SMALL[F32])
    return select(x < 0.0, e, 1.0) / (e + 1.0)


@emitter
def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent, (e^2x - 1) / (e^2x + 1)."""
    y, n = _reduced(clamp(x.abs() * 2.0, None, 20.0))
    power = power_of_two(n)
    grown = fma(power, y, power - 1.0)
    return (grown / (grown + 2.0)).copysign(x)
