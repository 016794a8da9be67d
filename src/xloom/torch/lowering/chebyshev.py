"""Functions by Chebyshev series, whose coefficients mpmath (which torch brings) gives when one is first used.

A series of degree n on [-1, 1] is within rounding of its function once the coefficients have fallen below 1e-16 of the
largest; degrees are raised until they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph

_DEGREES = (16, 24, 32, 48, 64, 96)


@cache
def coefficients(function: Callable[[Any], Any], low: float, high: float) -> tuple[float, ...]:
    """Of the series for `function`, a function of mpmath's numbers, between two bounds."""
    with mpmath.workdps(30):
        found: list[float] = []
        for count in _DEGREES:
            angles = [mpmath.pi * (2 * k + 1) / (2 * count) for k in range(count)]
            middle, half = (mpmath.mpf(low) + high) / 2, (mpmath.mpf(high) - low) / 2
            values = [function(middle + half * mpmath.cos(a)) for a in angles]
            found = []
            for j in range(count):
                total = mpmath.fsum(v * mpmath.cos(j * a) for v, a in zip(values, angles, strict=True))
                found.append(float(total * (1 if j == 0 else 2) / count))
            largest = max(map(abs, found))
            while len(found) > 1 and abs(found[-1]) < 1e-17 * largest:
                found.pop()
            if len(found) <= count - 3 or max(map(abs, found[-3:])) < 3e-16 * largest:
                break
    return tuple(found)


def series(g: Graph, x: Instruction, function: Callable[[Any], Any], low: float, high: float) -> Instruction:
    """The series at x, by Clenshaw's recurrence; x beyond the bounds is taken as the bound."""
    terms = coefficients(function, low, high)
    x = g.minimum(g.maximum(x, g.full_like(x, low)), g.full_like(x, high))
    t = g.multiply(g.subtract(x, g.full_like(x, (low + high) / 2)), g.full_like(x, 2 / (high - low)))
    twice = g.add(t, t)
    later, last = g.full_like(x, 0), g.full_like(x, 0)
    for term in terms[:0:-1]:
        later, last = g.add(g.subtract(g.multiply(twice, later), last), g.full_like(x, term)), later
    return g.add(g.subtract(g.multiply(t, later), last), g.full_like(x, terms[0]))


def polynomial(g: Graph, x: Instruction, terms: Sequence[float]) -> Instruction:
    """terms[0] + terms[1] x + ..., by Horner's rule."""
    total = g.full_like(x, terms[-1])
    for term in terms[-2::-1]:
        total = g.add(g.multiply(total, x), g.full_like(x, term))
    return total


def pieces(g: Graph, x: Instruction, bounds: Sequence[float], function: Callable[[Any], Any]) -> Instruction:
    """One series for each interval between bounds."""
    result = series(g, x, function, bounds[0], bounds[1])
    for low, high in pairwise(bounds[1:]):
        beyond = g.compare(x, g.full_like(x, low), direction="GE")
        result = g.select(beyond, series(g, x, function, low, high), result)
    return result
