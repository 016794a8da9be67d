"""Bessel's and Airy's functions, by Chebyshev series between zero and 8 and of their amplitudes beyond; as f64."""

from __future__ import annotations

import math
from typing import Any

import mpmath

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.chebyshev import pieces, series
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.special import equals, in_f64, less, plus, times

_EDGE = 8.0
_FAR = 1e-9


def _divided(g: Graph, number: float, x: Instruction) -> Instruction:
    return g.divide(g.full_like(x, number), x)


# -- modified, of the first kind


def _scaled_first(order: int):
    def near(x: Any) -> Any:
        return mpmath.exp(-x) * mpmath.besseli(order, x)

    def far(inverse: Any) -> Any:
        if inverse < _FAR:
            return 1 / mpmath.sqrt(2 * mpmath.pi)
        x = _EDGE / inverse
        return mpmath.sqrt(x) * mpmath.exp(-x) * mpmath.besseli(order, x)

    return near, far


_I = {order: _scaled_first(order) for order in (0, 1)}


def _first(g: Graph, x: Instruction, order: int) -> Instruction:
    """e^-|x| I(|x|)."""
    size = g.abs(x)
    near, far = _I[order]
    outside = g.divide(series(g, _divided(g, _EDGE, size), far, 0.0, 1.0), g.sqrt(size))
    result = g.select(less(g, size, _EDGE), series(g, size, near, 0.0, _EDGE), outside)
    result = g.select(equals(g, size, math.inf), g.full_like(x, 0), result)
    result = g.select(g.compare(x, x, direction="NE"), x, result)
    return result if order == 0 else g.multiply(g.sign(x), result)


@in_f64("aten.special_i0e.default")
def i0e(g: Graph, x):
    """e^-|x| I0(x)."""
    return _first(g, x, 0)


@in_f64("aten.special_i1e.default")
def i1e(g: Graph, x):
    """e^-|x| I1(x)."""
    return _first(g, x, 1)


@in_f64("aten.i0.default", "aten.special_modified_bessel_i0.default")
def i0(g: Graph, x):
    """I0(x)."""
    return g.multiply(g.exponential(g.abs(x)), _first(g, x, 0))


@in_f64("aten.special_i1.default", "aten.special_modified_bessel_i1.default")
def i1(g: Graph, x):
    """I1(x)."""
    return g.multiply(g.exponential(g.abs(x)), _first(g, x, 1))


# -- modified, of the second kind


def _k0_rest(x: Any) -> Any:
    """K0(x) + log(x / 2) I0(x)."""
    x = max(x, mpmath.mpf("1e-20"))
    return mpmath.besselk(0, x) + mpmath.log(x / 2) * mpmath.besseli(0, x)


def _k1_rest(x: Any) -> Any:
    """x (K1(x) - log(x / 2) I1(x))."""
    x = max(x, mpmath.mpf("1e-20"))
    return x * (mpmath.besselk(1, x) - mpmath.log(x / 2) * mpmath.besseli(1, x))


def _k_far(order: int):
    def far(inverse: Any) -> Any:
        if inverse < _FAR:
            return mpmath.sqrt(mpmath.pi / 2)
        x = 2 / inverse
        return mpmath.sqrt(x) * mpmath.exp(x) * mpmath.besselk(order, x)

    return far


_K = {0: (_k0_rest, _k_far(0)), 1: (_k1_rest, _k_far(1))}


def _second(g: Graph, x: Instruction, order: int, scaled: bool) -> Instruction:
    rest, far = _K[order]
    logarithm = g.log(times(g, x, 0.5))
    grown = g.exponential(x)
    small = g.minimum(x, g.full_like(x, 2.0))
    if order == 0:
        near = g.subtract(series(g, small, rest, 0.0, 2.0), g.multiply(logarithm, i0(g, small)))
    else:
        near = g.add(g.divide(series(g, small, rest, 0.0, 2.0), small), g.multiply(logarithm, i1(g, small)))
    away = g.divide(pieces(g, _divided(g, 2.0, x), (0.0, 0.25, 1.0), far), g.sqrt(x))
    near, away = (g.multiply(near, grown), away) if scaled else (near, g.divide(away, grown))
    result = g.select(g.compare(x, g.full_like(x, 2), direction="LE"), near, away)
    result = g.select(equals(g, x, 0), g.full_like(x, math.inf), result)
    result = g.select(less(g, x, 0), g.full_like(x, math.nan), result)
    return g.select(g.compare(x, x, direction="NE"), x, result)


@in_f64("aten.special_modified_bessel_k0.default")
def k0(g: Graph, x):
    """K0(x)."""
    return _second(g, x, 0, False)


@in_f64("aten.special_modified_bessel_k1.default")
def k1(g: Graph, x):
    """K1(x)."""
    return _second(g, x, 1, False)


@in_f64("aten.special_scaled_modified_bessel_k0.default")
def k0e(g: Graph, x):
    """e^x K0(x)."""
    return _second(g, x, 0, True)


@in_f64("aten.special_scaled_modified_bessel_k1.default")
def k1e(g: Graph, x):
    """e^x K1(x)."""
    return _second(g, x, 1, True)


# -- of the first and second kind: P cos + Q sin beyond the edge


def _phase(x: Any, order: int) -> Any:
    return x - mpmath.pi * (2 * order + 1) / 4


def _amplitudes(order: int):
    def along(inverse: Any) -> Any:
        if inverse < _FAR:
            return mpmath.mpf(1)
        x = _EDGE / inverse
        angle = _phase(x, order)
        both = mpmath.besselj(order, x) * mpmath.cos(angle) + mpmath.bessely(order, x) * mpmath.sin(angle)
        return mpmath.sqrt(mpmath.pi * x / 2) * both

    def across(inverse: Any) -> Any:
        if inverse < _FAR:
            return mpmath.mpf(4 * order * order - 1) / (8 * _EDGE)
        x = _EDGE / inverse
        angle = _phase(x, order)
        both = mpmath.bessely(order, x) * mpmath.cos(angle) - mpmath.besselj(order, x) * mpmath.sin(angle)
        return mpmath.sqrt(mpmath.pi * x / 2) * both / inverse

    def near(x: Any) -> Any:
        return mpmath.besselj(order, x)

    def rest(x: Any) -> Any:
        x = max(x, mpmath.mpf("1e-15"))
        value = mpmath.bessely(order, x) - 2 / mpmath.pi * mpmath.log(x) * mpmath.besselj(order, x)
        return value if order == 0 else x * value

    return along, across, near, rest


_J = {order: _amplitudes(order) for order in (0, 1)}


def _far_wave(g: Graph, size: Instruction, order: int, second: bool) -> Instruction:
    along, across, _, _ = _J[order]
    inverse = _divided(g, _EDGE, size)
    p = series(g, inverse, along, 0.0, 1.0)
    q = g.multiply(inverse, series(g, inverse, across, 0.0, 1.0))
    angle = plus(g, size, -math.pi * (2 * order + 1) / 4)
    sine, cosine = g.sine(angle), g.cosine(angle)
    if second:
        wave = g.add(g.multiply(p, sine), g.multiply(q, cosine))
    else:
        wave = g.subtract(g.multiply(p, cosine), g.multiply(q, sine))
    wave = g.multiply(wave, g.sqrt(_divided(g, 2 / math.pi, size)))
    return g.select(equals(g, size, math.inf), g.full_like(size, 0), wave)


def _oscillating(g: Graph, x: Instruction, order: int) -> Instruction:
    size = g.abs(x)
    result = g.select(less(g, size, _EDGE), series(g, size, _J[order][2], 0.0, _EDGE), _far_wave(g, size, order, False))
    result = g.select(g.compare(x, x, direction="NE"), x, result)
    return result if order == 0 else g.multiply(g.sign(x), result)


def _oscillating_second(g: Graph, x: Instruction, order: int) -> Instruction:
    small = g.minimum(x, g.full_like(x, _EDGE))
    rest = series(g, small, _J[order][3], 0.0, _EDGE)
    rest = rest if order == 0 else g.divide(rest, small)
    near = g.add(rest, times(g, g.multiply(g.log(small), _oscillating(g, small, order)), 2 / math.pi))
    result = g.select(less(g, x, _EDGE), near, _far_wave(g, x, order, True))
    result = g.select(equals(g, x, 0), g.full_like(x, -math.inf), result)
    result = g.select(less(g, x, 0), g.full_like(x, math.nan), result)
    return g.select(g.compare(x, x, direction="NE"), x, result)


@in_f64("aten.special_bessel_j0.default")
def j0(g: Graph, x):
    """J0(x)."""
    return _oscillating(g, x, 0)


@in_f64("aten.special_bessel_j1.default")
def j1(g: Graph, x):
    """J1(x)."""
    return _oscillating(g, x, 1)


@in_f64("aten.special_bessel_y0.default")
def y0(g: Graph, x):
    """Y0(x)."""
    return _oscillating_second(g, x, 0)


@in_f64("aten.special_bessel_y1.default")
def y1(g: Graph, x):
    """Y1(x)."""
    return _oscillating_second(g, x, 1)


# -- Airy


def _airy(x: Any) -> Any:
    return mpmath.airyai(x)


def _airy_decay(inverse: Any) -> Any:
    """2 sqrt(pi) x^(1/4) e^z Ai(x), of 1 / z = 3 / (2 x^(3/2))."""
    if inverse < _FAR:
        return mpmath.mpf(1)
    z = 1 / inverse
    x = (mpmath.mpf(3) / 2 * z) ** (mpmath.mpf(2) / 3)
    return 2 * mpmath.sqrt(mpmath.pi) * x ** mpmath.mpf("0.25") * mpmath.exp(z) * mpmath.airyai(x)


def _airy_wave(sine: bool):
    def amplitude(inverse: Any) -> Any:
        z = 1 / max(inverse, mpmath.mpf(_FAR) * 10)
        x = (mpmath.mpf(3) / 2 * z) ** (mpmath.mpf(2) / 3)
        angle = z + mpmath.pi / 4
        a, b = mpmath.airyai(-x), mpmath.airybi(-x)
        part = a * mpmath.sin(angle) + b * mpmath.cos(angle)
        if not sine:
            part = a * mpmath.cos(angle) - b * mpmath.sin(angle)
        return part * mpmath.sqrt(mpmath.pi) * x ** mpmath.mpf("0.25")

    return amplitude


_AIRY_SINE, _AIRY_COSINE = _airy_wave(True), _airy_wave(False)


@in_f64("aten.special_airy_ai.default")
def airy_ai(g: Graph, x):
    """Ai(x)."""
    size = g.abs(x)
    z = times(g, g.multiply(size, g.sqrt(size)), 2 / 3)
    inverse = _divided(g, 1.0, z)
    quarter = g.sqrt(g.sqrt(size))
    edge = 1 / (2 / 3 * 5**1.5)
    decay = g.multiply(series(g, inverse, _airy_decay, 0.0, edge), g.exponential(g.negate(z)))
    decay = g.divide(times(g, decay, 0.5 / math.sqrt(math.pi)), quarter)
    angle = plus(g, z, math.pi / 4)
    wave = g.add(
        g.multiply(g.sine(angle), series(g, inverse, _AIRY_SINE, 0.0, edge)),
        g.multiply(g.cosine(angle), series(g, inverse, _AIRY_COSINE, 0.0, edge)),
    )
    wave = g.divide(times(g, wave, 1 / math.sqrt(math.pi)), quarter)
    middle = pieces(g, x, (-5.0, -2.0, 1.0, 5.0), _airy)
    result = g.select(less(g, size, 5.0), middle, g.select(less(g, x, 0), wave, decay))
    return g.select(g.compare(x, x, direction="NE"), x, result)
