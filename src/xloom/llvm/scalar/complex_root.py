"""Modulus and square roots of complex numbers in f64."""

from __future__ import annotations

import math

from xloom.llvm.math.scalar import Scalar, select
from xloom.llvm.scalar.complex_pair import Pair, Scale, choose, infinite


def hypotenuse(z: Pair) -> Scalar:
    """sqrt(x**2 + y**2); infinite where either is."""
    scale = Scale.of(z)
    return length(z.times(scale.power(1))) * scale.power(-1)


def length(z: Pair) -> Scalar:
    """The modulus of a number whose squares are right."""
    return select(z.is_infinite(), math.inf, (z.real * z.real + z.imag * z.imag).sqrt())


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
