"""Special functions of error, gamma and zeta; computed as f64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath

from xloom.hlo import dtype as dt
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.chebyshev import pieces, polynomial, series
from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.loops import repeated
from xloom.torch.lowering.promotion import compute_type, float_type
from xloom.torch.lowering.registry import lowers

_INF, _NAN = float("inf"), float("nan")


def in_f64(*names: str) -> Callable[..., Any]:
    """Registers a function of f64 arrays as a lowering of operators on floats."""

    def register(compute: Callable[..., Instruction]) -> Callable[..., Instruction]:
        def unary(g: Graph, x: Instruction) -> Instruction:
            return g.cast(compute(g, g.cast(x, dt.f64)), float_type(x))

        def binary(g: Graph, x: Value, y: Value) -> Instruction:
            dtype = float_type(x, y)
            return g.cast(compute(g, *g.broadcast_operands(x, y, dtype=dt.f64)), dtype)

        lowers(*names)(unary if compute.__code__.co_argcount == 2 else binary)
        return compute

    return register


def less(g: Graph, x: Instruction, bound: float) -> Instruction:
    """x < bound."""
    return g.compare(x, g.full_like(x, bound), direction="LT")


def equals(g: Graph, x: Instruction, value: float) -> Instruction:
    """x == value."""
    return g.compare(x, g.full_like(x, value), direction="EQ")


def plus(g: Graph, x: Instruction, number: float) -> Instruction:
    """x + number."""
    return g.add(x, g.full_like(x, number))


def times(g: Graph, x: Instruction, number: float) -> Instruction:
    """x number."""
    return g.multiply(x, g.full_like(x, number))


def _erfcx_of_share(t: Any) -> Any:
    x = 1 / t - 1
    return mpmath.exp(x * x) * mpmath.erfc(x) if x < 25 else _erfcx_far(x)


def _erfcx_far(x: Any) -> Any:
    y = 1 / (2 * x * x)
    return (1 - y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y))))) / (x * mpmath.sqrt(mpmath.pi))


def _scaled_tail(g: Graph, x: Instruction) -> Instruction:
    """e^(x²) erfc(x) of x >= 0, by a series in 1 / (1 + x)."""
    share = g.divide(g.full_like(x, 1), plus(g, x, 1))
    return g.multiply(share, pieces(g, share, (0.0, 0.25, 1.0), _erfcx_by_share))


def _erfcx_by_share(t: Any) -> Any:
    return 1 / mpmath.sqrt(mpmath.pi) if t < 1e-20 else _erfcx_of_share(t) / t


@in_f64("aten.erfc.default", "aten.special_erfc.default")
def erfc(g: Graph, x):
    """1 - erf(x)."""
    size = g.abs(x)
    tail = g.multiply(g.exponential(g.negate(g.multiply(x, x))), _scaled_tail(g, size))
    tail = g.select(less(g, x, 0), g.subtract(g.full_like(x, 2), tail), tail)
    return g.select(less(g, size, 0.5), g.subtract(g.full_like(x, 1), g.erf(x)), _keep_nan(g, x, tail))


def _keep_nan(g: Graph, x: Instruction, result: Instruction) -> Instruction:
    return g.select(g.compare(x, x, direction="NE"), x, result)


@in_f64("aten.special_erfcx.default")
def erfcx(g: Graph, x):
    """e^(x²) erfc(x)."""
    size = g.abs(x)
    tail = _scaled_tail(g, size)
    mirrored = g.subtract(times(g, g.exponential(g.multiply(x, x)), 2), tail)
    return _keep_nan(g, x, g.select(less(g, x, 0), mirrored, tail))


@in_f64("aten.erfinv.default", "aten.special_erfinv.default")
def erfinv(g: Graph, x):
    """The inverse of erf."""
    w = g.sqrt(g.maximum(g.negate(g.add(g.log_plus_one(x), g.log_plus_one(g.negate(x)))), g.full_like(x, 0)))
    ratio = pieces(g, w, (0.0, 2.0, 4.0, 6.5), _erfinv_ratio)
    result = g.multiply(x, ratio)
    result = g.select(equals(g, x, 1), g.full_like(x, _INF), result)
    result = g.select(equals(g, x, -1), g.full_like(x, -_INF), result)
    outside = g.compare(g.abs(x), g.full_like(x, 1), direction="GT")
    return g.select(outside, g.full_like(x, _NAN), _keep_nan(g, x, result))


def _erfinv_ratio(w: Any) -> Any:
    """erfinv(x) / x as a function of sqrt(-log(1 - x²))."""
    if w < 1e-8:
        return mpmath.sqrt(mpmath.pi) / 2
    with mpmath.workdps(45):
        x = mpmath.sqrt(-mpmath.expm1(-w * w))
        return mpmath.erfinv(x) / x


@in_f64("aten.special_ndtri.default")
def ndtri(g: Graph, x):
    """The inverse of the normal distribution: from the nearer tail, refined where that is thin."""
    low = less(g, x, 0.5)
    tail = g.select(low, x, g.subtract(g.full_like(x, 1), x))
    root = g.sqrt(times(g, g.log(g.maximum(tail, g.full_like(x, 1e-300))), -2))
    size = pieces(g, root, (1.177, 2.0, 4.0, 9.0, 37.2), _normal_tail)
    result = g.select(low, g.negate(size), size)
    result = g.select(equals(g, x, 0), g.full_like(x, -_INF), g.select(equals(g, x, 1), g.full_like(x, _INF), result))
    outside = g.or_(less(g, x, 0), g.compare(x, g.full_like(x, 1), direction="GT"))
    return g.select(outside, g.full_like(x, _NAN), _keep_nan(g, x, result))


def _normal_tail(root: Any) -> Any:
    """z with P(Z > z) = e^(-root²/2), by Newton's method."""
    target = mpmath.exp(-root * root / 2)
    z = mpmath.sqrt(max(root * root - 2 * mpmath.log(max(root, 1) * mpmath.mpf(2.5)), mpmath.mpf("0.0")))
    for _ in range(60):
        tail = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        step = mpmath.log(tail / target) * tail * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(z * z / 2)
        z += step
        if abs(step) < 1e-25:
            break
    return z


def _sine_pi(g: Graph, x: Instruction) -> Instruction:
    """sin(pi x)."""
    nearest = g.round_nearest_even(x)
    value = g.sine(times(g, g.subtract(x, nearest), math.pi))
    odd = g.compare(g.remainder(nearest, g.full_like(x, 2)), g.full_like(x, 0), direction="NE")
    return g.select(odd, g.negate(value), value)


def _sine_near_poles(g: Graph, x: Instruction, computed: DType) -> Instruction:
    """sin(pi x); of integers, as on torch's CPU, what is left of it where pi x is rounded to `computed`."""
    whole = g.compare(g.floor(x), x, direction="EQ")
    rounded = g.cast(times(g, g.cast(x, computed), math.pi), dt.f64)
    return g.select(whole, g.sine(rounded), _sine_pi(g, x))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8


@in_f64("aten.lgamma.default")
def lgamma(g: Graph, x):
    """log |Gamma(x)|: Stirling's series after a shift; by reflection below 1/2."""
    mirrored = less(g, x, 0.5)
    y = g.select(mirrored, g.subtract(g.full_like(x, 1), x), x)
    value = lgamma_of_positive(g, y)
    sine = g.abs(_sine_pi(g, x))
    reflected = g.subtract(g.log(g.divide(g.full_like(x, math.pi), sine)), value)
    result = g.select(mirrored, reflected, value)
    pole = g.and_(g.compare(x, g.full_like(x, 0), direction="LE"), g.compare(g.floor(x), x, direction="EQ"))
    result = g.select(g.or_(pole, equals(g, g.abs(x), _INF)), g.full_like(x, _INF), result)
    return _keep_nan(g, x, result)


def lgamma_of_positive(g: Graph, x: Instruction) -> Instruction:
    """log Gamma(x) of x > 0, in f64."""
    near = less(g, x, _SHIFT)
    product = x
    for k in range(1, _SHIFT):
        product = g.multiply(product, plus(g, x, k))
    y = g.select(near, plus(g, x, _SHIFT), x)
    inverse = g.divide(g.full_like(x, 1), y)
    tail = g.multiply(inverse, polynomial(g, g.multiply(inverse, inverse), _STIRLING))
    main = g.subtract(g.multiply(plus(g, y, -0.5), g.log(y)), y)
    value = g.add(plus(g, main, 0.5 * math.log(2 * math.pi)), tail)
    return g.select(near, g.subtract(value, g.log(product)), value)


_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)


@in_f64("aten.digamma.default")
def digamma(g: Graph, x):
    """The derivative of log Gamma: its asymptotic series after a shift; by reflection below 1/2."""
    mirrored = less(g, x, 0.5)
    y = g.select(mirrored, g.subtract(g.full_like(x, 1), x), x)
    near = less(g, y, _SHIFT)
    total = g.full_like(x, 0)
    for k in range(_SHIFT):
        total = g.add(total, g.divide(g.full_like(x, 1), plus(g, y, k)))
    far = g.select(near, plus(g, y, _SHIFT), y)
    inverse = g.divide(g.full_like(x, 1), far)
    square = g.multiply(inverse, inverse)
    value = g.add(g.subtract(g.log(far), times(g, inverse, 0.5)), g.multiply(square, polynomial(g, square, _DIGAMMA)))
    value = g.select(near, g.subtract(value, total), value)
    rest = g.subtract(x, g.round_nearest_even(x))
    reflected = g.subtract(value, g.divide(g.full_like(x, math.pi), g.tan(times(g, rest, math.pi))))
    result = g.select(mirrored, reflected, value)
    whole = g.and_(less(g, x, 0), g.compare(g.floor(x), x, direction="EQ"))
    result = g.select(whole, g.full_like(x, _NAN), result)
    pole = g.divide(g.full_like(x, -1), x)
    return _keep_nan(g, x, g.select(equals(g, x, 0), pole, result))


# B(2k) / (2k)!, of Euler and Maclaurin's formula
_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
_TERMS = 12


@in_f64("aten.special_zeta.default", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar")
def zeta(g: Graph, x, y):
    """Hurwitz' zeta function, sum (k + y)^-x: some terms, and Euler and Maclaurin's formula for the rest."""
    total = g.full_like(x, 0)
    minus = g.negate(x)
    for k in range(_TERMS):
        total = g.add(total, g.power(plus(g, y, k), minus))
    end = plus(g, y, _TERMS)
    power = g.power(end, minus)
    total = g.add(total, g.divide(g.multiply(power, end), plus(g, x, -1)))
    total = g.add(total, times(g, power, 0.5))
    factor, below = x, g.divide(power, end)
    for k, number in enumerate(_MACLAURIN):
        total = g.add(total, times(g, g.multiply(factor, below), number))
        factor = g.multiply(factor, g.multiply(plus(g, x, 2 * k + 1), plus(g, x, 2 * k + 2)))
        below = g.divide(below, g.multiply(end, end))
    whole = g.compare(g.floor(y), y, direction="EQ")
    below_zero = g.compare(y, g.full_like(y, 0), direction="LE")
    total = g.select(g.and_(below_zero, whole), g.full_like(x, _INF), total)
    fraction = g.compare(g.floor(x), x, direction="NE")
    total = g.select(g.and_(g.and_(below_zero, g.not_(whole)), fraction), g.full_like(x, _NAN), total)
    total = g.select(equals(g, x, 1), g.full_like(x, _INF), total)
    return g.select(less(g, x, 1), g.full_like(x, _NAN), total)


@lowers("aten.polygamma.default")
def polygamma(g: Graph, n: int, x):
    """The n-th derivative of digamma."""
    dtype = float_type(x)
    wide = g.cast(x, dt.f64)
    if n == 0:
        return g.cast(digamma(g, wide), dtype)
    factor = math.factorial(n) * (1 if n % 2 else -1)
    if n == 1:  # by reflection below 1/2: trigamma(1 - x) + trigamma(x) = (pi / sin(pi x))²
        mirrored = less(g, wide, 0.5)
        y = g.select(mirrored, g.subtract(g.full_like(wide, 1), wide), wide)
        value = zeta(g, g.full_like(wide, 2), y)
        ratio = g.divide(g.full_like(wide, math.pi), _sine_near_poles(g, wide, compute_type(dtype)))
        return g.cast(g.select(mirrored, g.subtract(g.multiply(ratio, ratio), value), value), dtype)
    return g.cast(times(g, zeta(g, g.full_like(wide, n + 1), wide), factor), dtype)


_ROUNDS = 400


@in_f64("aten.igamma.default", "aten.special_gammainc.default")
def igamma(g: Graph, x, y):
    """The lower regularised incomplete gamma function P(x, y)."""
    return _incomplete(g, x, y, False)


@in_f64("aten.igammac.default", "aten.special_gammaincc.default")
def igammac(g: Graph, x, y):
    """The upper regularised incomplete gamma function Q(x, y)."""
    return _incomplete(g, x, y, True)


def _incomplete(g: Graph, a: Instruction, x: Instruction, upper: bool) -> Instruction:
    """By its series where x < a + 1, by Lentz' continued fraction elsewhere."""
    one = g.full_like(x, 1)
    scale = g.exponential(g.subtract(g.subtract(g.multiply(a, g.log(x)), x), lgamma(g, a)))
    by_series = g.compare(x, g.add(a, one), direction="LT")

    def term(h: Graph, k: Instruction, state: list[Instruction]) -> list[Instruction]:
        current, total, a, x = state
        current = h.multiply(current, h.divide(x, h.add(a, h.full_like(x, k))))
        return [current, h.add(total, current), a, x]

    first = g.divide(one, a)
    series_x = g.select(by_series, x, one)
    total = repeated(g, _ROUNDS, term, [first, first, a, series_x], start=1)[1]

    def fraction(h: Graph, k: Instruction, state: list[Instruction]) -> list[Instruction]:
        b, c, d, value, a = state
        step = h.full_like(a, k)
        number = h.multiply(h.negate(step), h.subtract(step, a))
        b = h.add(b, h.full_like(b, 2))
        d = h.divide(h.full_like(d, 1), _away_from_zero(h, h.add(h.multiply(number, d), b)))
        c = _away_from_zero(h, h.add(b, h.divide(number, c)))
        return [b, c, d, h.multiply(value, h.multiply(d, c)), a]

    far_x = g.select(by_series, g.add(a, g.full_like(a, 2)), x)
    b = g.subtract(g.add(far_x, one), a)
    d = g.divide(one, b)
    value = repeated(g, _ROUNDS, fraction, [b, g.full_like(x, 1e300), d, d, a], start=1)[3]
    lower, higher = g.multiply(scale, total), g.multiply(scale, value)
    if upper:
        result = g.select(by_series, g.subtract(one, lower), higher)
    else:
        result = g.select(by_series, lower, g.subtract(one, higher))
    limits = ((equals(g, x, 0), 0.0), (equals(g, a, 0), 1.0), (equals(g, x, _INF), 1.0), (equals(g, a, _INF), 0.0))
    for where, limit in limits:
        result = g.select(where, g.full_like(x, 1 - limit if upper else limit), result)
    bad = g.or_(g.or_(less(g, x, 0), less(g, a, 0)), g.compare(g.add(a, x), g.add(a, x), direction="NE"))
    bad = g.or_(bad, g.and_(equals(g, x, 0), equals(g, a, 0)))
    bad = g.or_(bad, g.and_(equals(g, x, _INF), equals(g, a, _INF)))
    return g.select(bad, g.full_like(x, _NAN), result)


def _away_from_zero(g: Graph, x: Instruction) -> Instruction:
    return g.select(less(g, g.abs(x), 1e-300), g.full_like(x, 1e-300), x)


@in_f64("aten.special_log_ndtr.default")
def log_ndtr(g: Graph, x):
    """log of the normal distribution."""
    y = times(g, x, -math.sqrt(0.5))
    tail = g.subtract(g.log(times(g, _scaled_tail(g, g.maximum(y, g.full_like(y, 0))), 0.5)), g.multiply(y, y))
    body = g.log_plus_one(times(g, erfc(g, g.negate(y)), -0.5))
    return _keep_nan(g, x, g.select(less(g, x, -1), tail, body))


@in_f64("aten.special_spherical_bessel_j0.default")
def spherical_bessel_j0(g: Graph, x):
    """sin(x) / x."""
    small = less(g, g.abs(x), 0.5)
    near = series(g, g.multiply(x, x), _sinc_of_square, 0.0, 0.25)
    far = g.select(equals(g, g.abs(x), _INF), g.full_like(x, 0), g.divide(g.sine(x), x))
    return _keep_nan(g, x, g.select(small, near, far))


def _sinc_of_square(square: Any) -> Any:
    return mpmath.sinc(mpmath.sqrt(square))
