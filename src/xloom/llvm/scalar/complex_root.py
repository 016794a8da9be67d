"""Modulus and square roots of complex numbers, in f64 but for the modulus."""

from __future__ import annotations

import math

from xloom.llvm.math.compensated import product, sum_ordered
from xloom.llvm.math.scalar import F32, Scalar, clamp, fma, select
from xloom.llvm.scalar.complex_pair import Pair, Scale, choose, infinite


def hypotenuse(z: Pair) -> Scalar:
    """sqrt(x**2 + y**2); infinite where either is."""
    scale = Scale.of(z)
    return length(z.times(scale.power(1))) * scale.power(-1)


def length(z: Pair) -> Scalar:
    """The modulus of a number whose squares are right."""
    return select(z.is_infinite(), math.inf, (z.real * z.real + z.imag * z.imag).sqrt())


def length_f32(z: Pair) -> Scalar:
    """The modulus in f32, as near as if it were rounded from f64, whose roots take four times as long.

    |z| = 2**e sqrt((x / 2**e)**2 + (y / 2**e)**2), where e is about the exponent of the greater part; of what squares,
    sum and root r were rounded by, d, the result has d / 2r (Newton's step).
    """
    x, y = z.real.abs(), z.imag.abs()
    is_greater = x > y
    greater, lesser = select(is_greater, x, y), select(is_greater, y, x)
    # as bits: neither 2**e nor 2**-e is infinite or subnormal
    least, most = F32.bits_of(2.0**-126), F32.bits_of(2.0**125)
    exponent = clamp(greater.bits() & F32.bits_of(math.inf), least, most)
    shrink = (exponent.constant(F32.bits_of(1.0) * 2) - exponent).as_float()
    greater, lesser = greater * shrink, lesser * shrink
    (large, large_error), (little, little_error) = product(greater, greater), product(lesser, lesser)
    total, error = sum_ordered(large, little)
    root = total.sqrt()
    missing = fma(-root, root, total) + (error + (large_error + little_error))
    nonzero = select(root > F32.smallest_normal, root, F32.smallest_normal)
    root += missing * (0.5 / nonzero)
    return select(z.is_infinite(), math.inf, root * exponent.as_float())


def square_root(z: Pair) -> Pair:
    """The principal square root of a complex number: its real part is not negative."""
    scale = Scale.of(z)
    small = z.times(scale.power(1))
    return _root(z, _greater_part(small, length(small)) * scale.power(-0.5))


def reciprocal_square_root(z: Pair) -> Pair:
    """1 / sqrt(z), which is the root's conjugate over the modulus; of 0 as 1 / 0."""
    scale = Scale.of(z)
    small = z.times(scale.power(1))
    size = length(small)
    root = _root(small, _greater_part(small, size))
    real, imag = Pair(root.real, -root.imag)
    endless = size.equals(math.inf)
    nothing = size.constant(0.0)
    result = Pair(
        select(endless, nothing.copysign(real), real / size),
        select(endless, nothing.copysign(imag), imag / size),
    ).times(scale.power(0.5))
    return choose(z.is_zero(), Pair(size.constant(math.inf), size.constant(math.nan)), result)


def _greater_part(z: Pair, size: Scalar) -> Scalar:
    """The part of the root that does not cancel: the real one in the right half-plane."""
    return ((z.real.abs() + size) * 0.5).sqrt()


def _root(z: Pair, greater: Scalar) -> Pair:
    """The root, of which the lesser part follows from 2 re im = y."""
    x, y = z
    lesser = select(greater.equals(0.0), y.abs(), y.abs() / (greater + greater))
    right = x >= 0.0
    endless = infinite(y)
    real = select(endless, math.inf, select(right, greater, lesser))
    imag = select(endless, math.inf, select(right, lesser, greater))
    return Pair(real, imag.copysign(y))
