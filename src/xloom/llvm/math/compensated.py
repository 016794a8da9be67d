"""Products and sums with their rounding errors."""

from __future__ import annotations

from xloom.llvm.math.scalar import Scalar, fma


def product(x: Scalar, y: Scalar | float) -> tuple[Scalar, Scalar]:
    """x * y and its rounding error."""
    total = x * y
    return total, fma(x, y, -total)


def sum_of(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """x + y and its rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def sum_ordered(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """x + y and its rounding error, where x is 0 or not below y in magnitude (Dekker)."""
    total = x + y
    return total, y - (total - x)


def quotient(numerator: Scalar, denominator: Scalar, denominator_low: Scalar) -> Scalar:
    """numerator / (denominator + denominator_low), nearly rounded once."""
    inverse = 1.0 / denominator
    first = numerator * inverse
    residue = fma(-first, denominator_low, fma(-first, denominator, numerator))
    return fma(residue, inverse, first)
