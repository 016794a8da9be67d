"""The remainder of a division that truncates, as C's fmod."""

from __future__ import annotations

import math

from xloom.llvm.math.scalar import F32, F64, Scalar, emitter, fma, select


@emitter
def fmod(x: Scalar, y: Scalar) -> Scalar:
    """x - y trunc(x / y), exactly, with the sign of x; f64 is left to the C library."""
    return _fmod_f32(x, y) if x.format is F32 else Scalar(x.builder, x.builder.frem(x.value, y.value))


def _fmod_f32(x: Scalar, y: Scalar) -> Scalar:
    """In f64: each step takes 50 bits off the quotient, which has 277 at most, and its remainder is exact."""
    divisor = y.abs().to(F64)
    inverse = 1.0 / divisor
    rest = x.abs().to(F64)
    for shift in (250, 200, 150, 100, 50, 0):
        # the nearest quotient, or one beside it: |rest| <= 3/4 of the divisor
        quotient = (rest * (inverse * 2.0**-shift)).rint()
        rest = fma(-quotient, divisor * 2.0**shift, rest)
    rest = select(rest < 0.0, rest + divisor, rest).to(F32)
    # NaNs are all of one sign, or those of equal operands would differ in total order
    rest = select(rest.equals(rest), rest.copysign(x), rest)
    return select((x.abs() < math.inf) & y.abs().equals(math.inf), x, rest)
