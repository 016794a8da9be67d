"""Random counts: of Poisson's and of the binomial distribution.

Where the mean is less than 10, a uniform number is taken through the probabilities of 0, 1, ...; elsewhere counts are
proposed by a ratio of uniform numbers, and accepted by their probability (Hörmann 1993: PTRS and BTRS). All in f64, as
probabilities are differences of great logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.formula import Formula, arrays, formulas
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.loops import while_any
from xloom.torch.lowering.promotion import result_type
from xloom.torch.lowering.random import uniform_floats
from xloom.torch.lowering.registry import lowers
from xloom.torch.lowering.rejection import accepted_values
from xloom.torch.lowering.special import lgamma_of_positive

_FEW = 10.0
_NO_PROBABILITY = 1e-18  # what is left of a uniform number when all counts are passed is rounding


@lowers("aten.poisson.default")
def poisson(g: Graph, x):
    """Counts of Poisson's distribution with means x; NaN where one is below 0."""
    mean = Formula(g, g.cast(x, dt.f64))
    is_small = mean < _FEW
    small, great = mean.most(_FEW), mean.least(_FEW)
    few = _searched(is_small, (-small).exp(), [small], lambda k, mean: mean / k)
    many = _proposed(~is_small, [great], _hat_of_poisson, lambda k, mean: k * mean.log() - mean - _log_gamma(k + 1))
    return few.where(is_small, many).where(mean >= 0, math.nan).as_dtype(x.shape.dtype)


def _hat_of_poisson(mean: Formula) -> _Hat:
    b = mean.sqrt() * 2.53 + 0.931
    return _Hat(b * 0.02483 - 0.059, b, mean + 0.43, 1.1328 / (b - 3.4) + 1.1239, mean.number(math.inf))


@lowers("aten.binomial.default")
def binomial(g: Graph, count, prob):
    """How many of `count` trials of probability `prob` succeed; NaN where that is no probability."""
    dtype = result_type(count, prob)
    n, p = formulas(g, *g.broadcast_operands(count, prob, dtype=dt.f64))
    rare = p.most(1 - p)
    is_small = n * rare < _FEW
    few = _searched(is_small, ((-rare).log1p() * n).exp(), [n, rare], _binomial_ratio).most(n)
    many = _proposed(~is_small, [n, rare], _hat_of_binomial, _binomial_log_probability)
    found = few.where(is_small, many)
    valid = (p >= 0) & (p <= 1) & (n >= 0)
    return found.where(p <= 0.5, n - found).where(valid, math.nan).as_dtype(dtype)


def _binomial_ratio(k: Formula, n: Formula, p: Formula) -> Formula:
    return (n - k + 1) * p / (k * (1 - p))


def _hat_of_binomial(n: Formula, p: Formula) -> _Hat:
    deviation = (n * p * (1 - p)).sqrt()
    b = deviation * 2.53 + 1.15
    return _Hat(b * 0.0248 - 0.0873 + p * 0.01, b, n * p + 0.5, (5.1 / b + 2.83) * deviation, n)


def _binomial_log_probability(k: Formula, n: Formula, p: Formula) -> Formula:
    """Relative to that of the likeliest count."""
    likeliest = ((n + 1) * p).floor()
    ways = [_log_gamma(each + 1) for each in (likeliest, n - likeliest, k, n - k)]
    return ways[0] + ways[1] - ways[2] - ways[3] + (k - likeliest) * (p / (1 - p)).log()


def _log_gamma(x: Formula) -> Formula:
    return Formula(x.g, lgamma_of_positive(x.g, x.array))


def _uniform(like: Formula) -> Formula:
    return Formula(like.g, uniform_floats(like.g, like.array.shape.dims, dt.f64))


def _searched(wanted: Formula, none: Formula, parameters: Sequence[Formula], ratio: Callable[..., Formula]) -> Formula:
    """The first count whose probability, with those before it, is above a uniform number; 0 where none is wanted.

    `none` is the probability of 0, and `ratio(k, *parameters)` that of k divided by that of k - 1.
    """

    def left(g: Graph, state: list[Instruction]) -> Instruction:
        rest, probability = formulas(g, *state[:2])
        return ((rest >= probability) & (probability > _NO_PROBABILITY)).array

    def step(g: Graph, state: list[Instruction]) -> list[Instruction]:
        rest, probability, k, *parameters = formulas(g, *state)
        beyond = (rest >= probability) & (probability > _NO_PROBABILITY)
        following = k + 1
        further = probability * ratio(following, *parameters)
        changed = [(rest - probability, rest), (further, probability), (following, k)]
        return arrays(*[new.where(beyond, old) for new, old in changed], *parameters)

    state = arrays(_uniform(none).where(wanted, -1.0), none, none.number(0), *parameters)
    return Formula(none.g, while_any(none.g, left, step, state)[2])


@dataclass(frozen=True)
class _Hat:
    """Of a table mountain hat: its a and b, its center and scale; and the highest count."""

    a: Formula
    b: Formula
    center: Formula
    scale: Formula
    highest: Formula


def _proposed(
    wanted: Formula,
    parameters: Sequence[Formula],
    hat: Callable[..., _Hat],
    log_probability: Callable[..., Formula],
) -> Formula:
    """Counts proposed by `hat(*parameters)`; anything where none is wanted."""

    def propose(h: Graph, state: list[Instruction]) -> tuple[Instruction, Instruction]:
        parameters = formulas(h, *state)
        under = hat(*parameters)
        u = _uniform(under.a) - 0.5
        to_edge = 0.5 - abs(u)
        proposed = ((under.a * 2 / to_edge + under.b) * u + under.center).floor()
        height = (1 - _uniform(under.a)) * under.scale / (under.a / (to_edge * to_edge) + under.b)
        possible = proposed.least(0).most(under.highest)
        refused = (proposed < 0) | (proposed > under.highest) | (height.log() > log_probability(possible, *parameters))
        return proposed.array, refused.array

    g = wanted.g
    return Formula(g, accepted_values(g, propose, arrays(*parameters), (~wanted).array, dt.f64))
