"""Complex numbers in formulas: pairs of scalars, and the scaling that keeps their squares right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from xloom.llvm.math import call
from xloom.llvm.math.scalar import Scalar, select


class Pair(NamedTuple):
    """A complex number in formulas."""

    real: Scalar
    imag: Scalar

    def is_infinite(self) -> Scalar:
        """Whether the real or the imaginary part is infinite (i1)."""
        return infinite(self.real) | infinite(self.imag)

    def is_finite(self) -> Scalar:
        """Whether the real and the imaginary part are finite (i1)."""
        return (self.real.abs() < math.inf) & (self.imag.abs() < math.inf)

    def is_zero(self) -> Scalar:
        """Whether the real and the imaginary part are zeros (i1)."""
        return self.real.equals(0.0) & self.imag.equals(0.0)

    def times(self, factor: Scalar) -> Pair:
        """Both parts multiplied by a real factor."""
        return Pair(self.real * factor, self.imag * factor)


def choose(condition: Scalar, yes: Pair, no: Pair) -> Pair:
    """`select` of complex numbers."""
    return Pair(select(condition, yes.real, no.real), select(condition, yes.imag, no.imag))


def function(opcode: str, *values: Scalar) -> Scalar:
    """The real function of an HLO opcode."""
    b = values[0].builder
    return Scalar(b, call(b, opcode, *(v.value for v in values)))


def is_nan(x: Scalar) -> Scalar:
    """Whether a float is NaN (i1)."""
    return ~x.equals(x)


def infinite(x: Scalar) -> Scalar:
    """Whether a float is infinite, of either sign (i1)."""
    return x.abs().equals(math.inf)


def greatest(z: Pair) -> Scalar:
    """The greater of the parts' magnitudes; of an infinity and a NaN the infinity."""
    x, y = z.real.abs(), z.imag.abs()
    return select((x > y) | x.equals(math.inf), x, y)


# Squares of numbers between 1 / LARGE and LARGE, and of scaled ones, neither overflow nor lose digits.
LARGE = 2.0**500
EXPONENT = 600
"""The power of 2 by which others are scaled."""


@dataclass(frozen=True)
class Scale:
    """2**-600, 2**600 or 1, by which a complex number is multiplied before its parts are squared."""

    one: Scalar
    large: Scalar
    small: Scalar

    @staticmethod
    def of(z: Pair) -> Scale:
        """The scale that a number needs."""
        size = greatest(z)
        return Scale(size.constant(1.0), size > LARGE, size < 1 / LARGE)

    def pick(self, large: float, small: float, normal: float) -> Scalar:
        """The constant for this scale: of a large number, of a small one, and of one that is not scaled."""
        return select(self.large, self.one.constant(large), select(self.small, self.one.constant(small), normal))

    def power(self, exponent: float) -> Scalar:
        """The scale to the power of 1, -1, 1/2 or -1/2."""
        return self.pick(2.0 ** (-EXPONENT * exponent), 2.0 ** (EXPONENT * exponent), 1.0)
