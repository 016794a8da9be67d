"""How random numbers change with the parameters of their distribution, at the same place of its quantiles.

Of a sample x with distribution function F and density f, dx/da is -(dF/da) / f. F / f, or (1 - F) / f beyond the mean,
is a series or continued fraction h of positive terms, so that dx/da is -h (log f)' - h', or h (log f)' + h'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.formula import Formula, arrays, formulas
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.loops import while_any
from xloom.torch.lowering.promotion import result_type
from xloom.torch.lowering.registry import lowers
from xloom.torch.lowering.special import digamma

_TOLERANCE = 2.0**-49
_MOST_STEPS = 1e5
_LEAST = float(ml_dtypes.finfo("float64").smallest_normal)
_NEARLY_NORMAL = 1e4
"""From which shape on gamma's quantiles are taken from the normal distribution's: off by less than 1 in 1e8."""


@lowers("aten._standard_gamma_grad.default")
def standard_gamma_grad(g: Graph, x, output):
    """The derivative of a gamma distributed sample `output` by its shape x."""
    alpha, sample = formulas(g, *g.broadcast_operands(x, output, dtype=dt.f64))
    sample, few = sample.least(_LEAST), alpha.most(_NEARLY_NORMAL)
    lower = sample < few + 1
    from_mean = sample.log() - _digamma(few)
    near, far = sample.where(lower, few), (few + 2).where(lower, sample)
    total, slope = _gamma_series(few, near)
    below = -(near / few) * (total * (from_mean - 1 / few) + slope)
    fraction, relative = _gamma_fraction(few, far)
    above = far * fraction * (from_mean + relative)
    found = below.where(lower, above).where(alpha < _NEARLY_NORMAL, _of_nearly_normal(alpha, sample))
    return found.as_dtype(result_type(x, output))


def _gamma_series(alpha: Formula, x: Formula) -> tuple[Formula, Formula]:
    """The sum of x^n / ((a + 1) ... (a + n)) over all n, and its derivative by a."""

    def left(g: Graph, state: list[Instruction]) -> Instruction:
        _, term, _, total, _, _, _ = formulas(g, *state)
        return (term > total * _TOLERANCE).array

    def add(g: Graph, state: list[Instruction]) -> list[Instruction]:
        n, term, relative, total, slope, alpha, x = formulas(g, *state)
        divisor = alpha + n
        term, relative = term * x / divisor, relative - 1 / divisor
        return arrays(n + 1, term, relative, total + term, slope + term * relative, alpha, x)

    one, none = x.number(1), x.number(0)
    state = while_any(x.g, left, add, arrays(one, one, none, one, none, alpha, x))
    total, slope = formulas(x.g, *state[3:5])
    return total, slope


def _gamma_fraction(alpha: Formula, x: Formula) -> tuple[Formula, Formula]:
    """Q(a, x) / (x f), by Legendre's continued fraction, and the derivative of its logarithm by a."""

    def following(n: Formula, alpha: Formula, x: Formula) -> list[_Link]:
        return [_Link(n * (alpha - n), n, x - alpha + n * 2 + 1, n.number(-1))]

    below = 1 / (x - alpha + 1)
    return _continued(following, below, below, (alpha, x))


def _of_nearly_normal(alpha: Formula, x: Formula) -> Formula:
    """By Cornish and Fisher's expansion of quantiles, at a deviation z by Wilson and Hilferty's."""
    root = alpha.sqrt()
    z = ((x / alpha).cbrt() - 1 + 1 / (alpha * 9)) * root * 3
    return z / (root * 2) + 1 - z * (z * z - 7) / (alpha * root * 72)


def _digamma(x: Formula) -> Formula:
    return Formula(x.g, digamma(x.g, x.array))


@lowers("aten._dirichlet_grad.default")
def dirichlet_grad(g: Graph, x, alpha, total):
    """The derivative of a Beta(alpha, total - alpha) distributed sample x by alpha, divided by 1 - x."""
    dtype = result_type(x, alpha, total)
    sample, alpha, total = formulas(g, *g.broadcast_operands(x, alpha, total, dtype=dt.f64))
    beta = total - alpha
    lower = sample < (alpha + 1) / (total + 2)
    place = sample.where(lower, 1 - sample)
    first, second = alpha.where(lower, beta), beta.where(lower, alpha)
    varies = place.number(1).where(lower, 0.0)
    fraction, relative = _beta_fraction(first, second, place, varies)
    from_mean = sample.least(_LEAST).log() - _digamma(alpha) + _digamma(total)
    below = 1 / alpha - from_mean - relative
    above = from_mean + relative
    return (sample / first * fraction * below.where(lower, above)).as_dtype(dtype)


def _beta_fraction(p: Formula, q: Formula, y: Formula, varies: Formula) -> tuple[Formula, Formula]:
    """p F / (y (1 - y) f) of Beta(p, q), and the derivative of its logarithm by p where `varies` is 1, else by q.

    The continued fraction is DLMF 8.17.22.
    """

    def odd(m: Formula, p: Formula, q: Formula, y: Formula, varies: Formula) -> tuple[Formula, Formula]:
        sum, first, second = p + q + m, p + m * 2, p + m * 2 + 1
        link = -(p + m) * sum * y / (first * second)
        return link, link * (1 / sum + varies * (1 / (p + m) - 1 / first - 1 / second))

    def following(n: Formula, *given: Formula) -> list[_Link]:
        p, q, y, varies = given
        first, second = p + n * 2 - 1, p + n * 2
        scale = n * y / (first * second)
        even = scale * (q - n)
        slope = scale * (1 - varies) - even * varies * (1 / first + 1 / second)
        one, none = n.number(1), n.number(0)
        return [_Link(*odd(n - 1, *given), one, none), _Link(even, slope, one, none)]

    return _continued(following, y.number(1), y.number(0), (p, q, y, varies))


@dataclass(frozen=True)
class _Link:
    """Numerator and denominator of a step of a continued fraction, each with its derivative."""

    a: Formula
    a_slope: Formula
    b: Formula
    b_slope: Formula


def _continued(
    following: Callable[..., list[_Link]], begin: Formula, relative: Formula, given: Sequence[Formula]
) -> tuple[Formula, Formula]:
    """A continued fraction by Lentz' way, and the derivative of its logarithm.

    It begins with `begin`, whose logarithm has the derivative `relative`; `following(n, *given)` has the links of step
    n, from 1 on.
    """

    def left(g: Graph, state: list[Instruction]) -> Instruction:
        n, change, moved, _, _, _, part, *_ = formulas(g, *state)
        changes = (abs(change - 1) > _TOLERANCE) | (abs(moved) > (abs(part) + 1) * _TOLERANCE)
        return (changes & (n < _MOST_STEPS)).array

    def step(g: Graph, state: list[Instruction]) -> list[Instruction]:
        n, change, moved, value, relative, c, c_relative, d, d_relative, *given = formulas(g, *state)
        for link in following(n, *given):
            slope = link.a_slope * d + link.a * d * d_relative + link.b_slope
            d = 1 / (link.a * d + link.b)
            d_relative = -d * slope
            slope = link.b_slope + (link.a_slope - link.a * c_relative) / c
            c = link.b + link.a / c
            c_relative = slope / c
            change, moved = c * d, c_relative + d_relative
            value, relative = value * change, relative + moved
        return arrays(n + 1, change, moved, value, relative, c, c_relative, d, d_relative, *given)

    one, none, infinite = (begin.number(k) for k in (1, 0, math.inf))
    state = arrays(one, infinite, none, begin, relative, infinite, none, begin, relative, *given)
    value, relative = formulas(begin.g, *while_any(begin.g, left, step, state)[3:5])
    return value, relative
