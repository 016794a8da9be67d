"""Random numbers of the gamma distribution, and of Dirichlet's."""

from __future__ import annotations

import math

import ml_dtypes

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.activation import softmax
from xloom.torch.lowering.formula import Formula, formulas
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.random import exponential_floats, normal_floats
from xloom.torch.lowering.registry import lowers
from xloom.torch.lowering.rejection import accepted_values


@lowers("aten._standard_gamma.default")
def standard_gamma(g: Graph, x):
    """Gamma distributed with shapes x and rate 1; no less than the least normal number of the dtype."""
    draw, log_factor = _draw(Formula(g, g.widened(x)))
    return Formula(g, (draw * log_factor.exp()).as_dtype(x.shape.dtype)).least(_least(x.shape.dtype)).array


@lowers("aten._sample_dirichlet.default")
def sample_dirichlet(g: Graph, x):
    """Dirichlet distributed along the last dimension, with concentrations x; within what the dtype has in (0, 1).

    They are shares of gamma distributed numbers, by their logarithms: those of small concentrations underflow.
    """
    dtype = x.shape.dtype
    draw, log_factor = _draw(Formula(g, g.cast(x, dt.f64)))
    share = g.cast(softmax(g, (draw.log() + log_factor).array, -1, False), dtype)
    below_one = 1 - float(ml_dtypes.finfo(dtype.numpy).eps) / 2
    return Formula(g, share).least(_least(dtype)).most(below_one).array


def _least(dtype: dt.DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).smallest_normal)


def _draw(alpha: Formula) -> tuple[Formula, Formula]:
    """A number y and log f, such that y f is gamma distributed with shape alpha.

    By rejection from the cube of a normal number (Marsaglia and Tsang 2000), which wants a shape of at least 1: others
    are raised by 1, and f is the power 1 / alpha of a uniform number.
    """
    g = alpha.g
    small = alpha < 1
    d = (alpha + 1).where(small, alpha) - 1 / 3

    def propose(h: Graph, state: list[Instruction]) -> tuple[Instruction, Instruction]:
        (d,) = formulas(h, *state)
        normal = Formula(h, normal_floats(h, d.array.shape.dims, d.array.shape.dtype))
        root = normal / (d * 9).sqrt() + 1
        proposed = root * root * root
        bound = normal * normal * 0.5 + d * (1 - proposed + proposed.log())
        refused = (root <= 0) | (-_exponential(d) >= bound)  # not what is NaN, as it is of an infinite shape
        return proposed.array, refused.array

    never = g.full(d.array.shape.dims, False, dt.pred)
    cube = accepted_values(g, propose, [d.array], never, d.array.shape.dtype)
    log_factor = (-_exponential(d) / alpha).where(alpha > 0, -math.inf)
    return d * Formula(g, cube), log_factor.where(small, 0.0)


def _exponential(like: Formula) -> Formula:
    return Formula(like.g, exponential_floats(like.g, like.array.shape.dims, like.array.shape.dtype))
