"""Complex functions, exact about infinities, signed zeros and branch cuts, in c128.

Where NumPy follows C99's annex G, it is used; the rest follow the same annex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # an ndarray; the stubs' dtype[Any] has no real and imag


def make(real: Array, imag: Array) -> Array:
    """real + i imag, without arithmetic on either."""
    out = np.empty(np.broadcast(real, imag).shape, np.complex128)
    out.real, out.imag = real, imag
    return out


def exp(z: Array) -> Array:
    """e**z; a real argument has a real result, whatever its size."""
    z = np.asarray(z, np.complex128)
    out = np.exp(z)
    return np.where(z.imag == 0, make(np.exp(z.real), z.imag), out)


def expm1(z: Array) -> Array:
    """e**z - 1: expm1(a) cos b - 2 sin(b/2)**2 + i e**a sin b."""
    a, b = z.real, z.imag
    half = np.sin(b / 2)
    real = np.expm1(a) * np.cos(b) - 2 * half * half
    imag = np.where(b == 0, b, np.exp(a) * np.sin(b))
    return make(np.where(b == 0, np.expm1(a), real), imag)


def log(z: Array) -> Array:
    """The principal logarithm, exact in the real part near |z| = 1."""
    a, b = np.abs(z.real), np.abs(z.imag)
    big, small = np.maximum(a, b), np.minimum(a, b)
    near = (big > 0.5) & (big < 2)
    # log |z| = log1p((big - 1)(big + 1) + small**2) / 2 where that does not cancel
    close = np.log1p((big - 1) * (big + 1) + small * small) / 2
    return make(np.where(near, close, np.log(z).real), np.angle(z))


def log1p(z: Array) -> Array:
    """log(1 + z): log1p(a (2 + a) + b**2) / 2 + i atan2(b, 1 + a); near z = -1, where that cancels, log |1 + z|."""
    a, b = z.real, z.imag
    square = a * (2 + a) + b * b
    small = np.log1p(square) / 2
    large = np.log(np.hypot(1 + a, b))
    real = np.where((square > -0.5) & (square < 1e300), small, large)
    return make(real, np.arctan2(b, 1 + a))


def sqrt(z: Array) -> Array:
    """The principal square root."""
    return np.sqrt(np.asarray(z, np.complex128))


def rsqrt(z: Array) -> Array:
    """1 / sqrt(z)."""
    return divide(np.asarray(1, np.complex128), sqrt(z))


def cbrt(z: Array) -> Array:
    """The principal cube root, z**(1/3)."""
    return power(z, np.asarray(1 / 3, np.complex128))


def logistic(z: Array) -> Array:
    """1 / (1 + e**-z)."""
    return divide(np.asarray(1, np.complex128), 1 + exp(-z))


def tanh(z: Array) -> Array:
    """Hyperbolic tangent."""
    return np.tanh(np.asarray(z, np.complex128))


def tan(z: Array) -> Array:
    """tan z = -i tanh(i z)."""
    t = np.tanh(make(-z.imag, z.real))
    return make(t.imag, -t.real)


def asin(z: Array) -> Array:
    """Arc sine."""
    return np.arcsin(np.asarray(z, np.complex128))


def acos(z: Array) -> Array:
    """Arc cosine."""
    return np.arccos(np.asarray(z, np.complex128))


def asinh(z: Array) -> Array:
    """Inverse hyperbolic sine."""
    return np.arcsinh(np.asarray(z, np.complex128))


def acosh(z: Array) -> Array:
    """Inverse hyperbolic cosine."""
    return np.arccosh(np.asarray(z, np.complex128))


def atanh(z: Array) -> Array:
    """Inverse hyperbolic tangent."""
    return np.arctanh(np.asarray(z, np.complex128))


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + i y) / sqrt(x**2 + y**2)), which for real arguments is the real one."""
    y, x = np.asarray(y, np.complex128), np.asarray(x, np.complex128)
    value = -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    return value


def multiply(x: Array, y: Array) -> Array:
    """The product by its four real ones."""
    real = x.real * y.real - x.imag * y.imag
    imag = x.real * y.imag + x.imag * y.real
    out = np.empty(np.shape(real), x.dtype)
    out.real, out.imag = real, imag
    return out


def divide(x: Array, y: Array) -> Array:
    """The quotient, in c128."""
    a, b = np.asarray(x, np.complex128), np.asarray(y, np.complex128)
    # NumPy's sum of a divisor's parts would overflow, and so would its reciprocal
    most = np.maximum(np.abs(b.real), np.abs(b.imag))
    scale = np.where(most > 2.0**1020, 2.0**-4, np.where(most < 2.0**-1000, 2.0**100, 1.0))
    wide = np.divide(make(a.real * scale, a.imag * scale), make(b.real * scale, b.imag * scale))
    # finite / infinite is 0, infinite / finite is infinite, also where parts are NaN (C99 annex G)
    finite_over_infinite = np.isfinite(x) & np.isinf(y)
    return np.where(finite_over_infinite, 0, wide).astype(x.dtype)


def power(x: Array, y: Array) -> Array:
    """x**y = |x|**c e**(-d arg x) e**(i (c arg x + d log |x|)) for y = c + i d; 0**y is 0, and 1 for y = 0."""
    x, y = np.broadcast_arrays(np.asarray(x, np.complex128), np.asarray(y, np.complex128))
    modulus, angle = np.abs(x), np.angle(x)
    c, d = y.real, y.imag
    size = np.power(modulus, c) * np.where(d == 0, 1, np.exp(-d * angle))
    argument = c * angle + np.where(d == 0, 0, d * np.log(modulus))
    out = make(size * np.cos(argument), size * np.sin(argument))
    zero = x == 0
    out = np.where(zero & (y == 0), 1, out)
    return np.where(zero & (c > 0) & (y != 0), 0, out)


def lexical_less(x: Array, y: Array) -> Array:
    """Order by real part, then by imaginary part."""
    return (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
