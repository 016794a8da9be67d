"""Complex inverse trigonometric and hyperbolic functions in f64.

asin and acos follow Hull, Fairgrieve and Tang: with r and s the distances of |x| + i|y| from -1 and 1, and
A = (r + s) / 2, asin z = atan2(x, sqrt(A**2 - x**2)) +- i log(A + sqrt(A**2 - 1)).
"""

from __future__ import annotations

import math

from xloom.llvm.math.scalar import Scalar, select
from xloom.llvm.scalar.complex_pair import LARGE, Pair, function, greatest, infinite, is_nan
from xloom.llvm.scalar.complex_root import hypotenuse

# Twice a large modulus is scaled by 2**-400 where 1 is added to it, far beneath its last digit.
_FAR_EXPONENT = 400
_TINY = 2.0**-110
"""Imaginary parts by the pole 1 whose (2 / y)**2 might overflow."""


def _side_and_height(z: Pair) -> tuple[Scalar, Scalar]:
    """sqrt(A**2 - x**2), the other side of asin's angle, and log(A + sqrt(A**2 - 1)), its imaginary part's size."""
    x, y = z.real.abs(), z.imag.abs()
    far = greatest(z) > LARGE
    beyond, distance = x + 1.0, (x - 1.0).abs()
    r = (beyond * beyond + y * y).sqrt()
    s = select(distance.equals(0.0), y, (distance * distance + y * y).sqrt())
    a = (r + s) * 0.5
    # r - (x + 1) = y**2 / (r + x + 1) and s - |x - 1| = y**2 / (s + |x - 1|). Where a root is of nothing else, y is
    # taken out of it, because its square may underflow.
    left, right = 1.0 / (r + beyond), 1.0 / (s + distance)
    mean = (left + right) * 0.5
    gap = y * y * left + (s + distance)  # 2 (A - x) for x <= 1, 2 (A - 1) for x >= 1
    side = select(x > 1.0, y * ((a + x) * mean).sqrt(), ((a + x) * 0.5 * gap).sqrt())
    side = select(far, y, select(x.equals(0.0) & is_nan(y), 1.0, side))
    below = y * (y * mean + (mean * (a + 1.0)).sqrt())
    above = gap * 0.5 + ((a + 1.0) * 0.5 * gap).sqrt()

    shrink = x.constant(2.0**-_FAR_EXPONENT)
    rest = select(far, hypotenuse(z.times(shrink)) * 2.0, select(x < 1.0, below, above))
    height = function("log-plus-one", rest) + select(far, x.constant(_FAR_EXPONENT * math.log(2)), 0.0)
    return side, height


def asin(z: Pair) -> Pair:
    """The principal arc sine of a complex number."""
    side, height = _side_and_height(z)
    return Pair(function("atan2", z.real, side), height.copysign(z.imag))


def acos(z: Pair) -> Pair:
    """The principal arc cosine of a complex number."""
    side, height = _side_and_height(z)
    return Pair(function("atan2", side, z.real), -height.copysign(z.imag))


def acosh(z: Pair) -> Pair:
    """Inverse hyperbolic cosine: i acos z or -i acos z, whose real part is not negative."""
    side, height = _side_and_height(z)
    return Pair(height, function("atan2", side, z.real).copysign(z.imag))


def asinh(z: Pair) -> Pair:
    """Inverse hyperbolic sine: -i asin(i z)."""
    real, imag = asin(Pair(-z.imag, z.real))
    return Pair(imag, -real)


def atanh(z: Pair) -> Pair:
    """log1p(4|x| / ((1 - |x|)**2 + y**2)) / 4 with the sign of x, + i atan2(2y, (1 - x)(1 + x) - y**2) / 2."""
    x, y = z.real.abs(), z.imag.abs()
    size = greatest(z)
    far = size > LARGE
    distance = 1.0 - x
    # far away, 4x / |z|**2 without the square
    p, q = x / size, y / size
    ratio = select(far, p / (p * p + q * q) / size, x / (distance * distance + y * y)) * 4.0
    # by the pole 1 it would be (2 / y)**2, of which the fourth root is taken before the logarithm
    pole = distance.equals(0.0) & (y < _TINY)
    log = function("log-plus-one", select(pole, math.sqrt(2) / y.sqrt(), ratio))
    real = select(z.is_infinite() | x.equals(0.0), 0.0, log * select(pole, x.constant(1.0), 0.25))
    angle = function("atan2", y + y, distance * (x + 1.0) - y * y) * 0.5
    upright = infinite(y) | (far & ~(is_nan(x) | is_nan(y)))
    return Pair(real.copysign(z.real), select(upright, math.pi / 2, angle).copysign(z.imag))
