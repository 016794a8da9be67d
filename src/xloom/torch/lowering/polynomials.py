"""Orthogonal polynomials by their recurrences; the degree is a tensor too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.loops import repeated
from xloom.torch.lowering.promotion import float_type
from xloom.torch.lowering.registry import lowers

# p(k + 1) = (a x + b) p(k) - c p(k - 1), the coefficients functions of k; p(1) is given by a slope and an offset
Coefficient = Callable[[Graph, Instruction], Instruction]


def _number(value: float) -> Coefficient:
    return lambda g, k: g.full_like(k, value)


def _linear(scale: float, add: float, below: float | None = None) -> Coefficient:
    """scale k + add, divided by k + below if that is given."""

    def value(g: Graph, k: Instruction) -> Instruction:
        number = g.add(g.multiply(k, g.full_like(k, scale)), g.full_like(k, add))
        return number if below is None else g.divide(number, g.add(k, g.full_like(k, below)))

    return value


class Recurrence:
    """A family of polynomials."""

    def __init__(self, slope: float, offset: float, a: Coefficient, b: Coefficient, c: Coefficient, shifted=False):
        self.slope, self.offset, self.a, self.b, self.c, self.shifted = slope, offset, a, b, c, shifted


def _chebyshev(slope: float, offset: float, shifted: bool) -> Recurrence:
    return Recurrence(slope, offset, _number(2), _number(0), _number(1), shifted)


_FAMILIES = {
    "chebyshev_polynomial_t": _chebyshev(1, 0, False),
    "chebyshev_polynomial_u": _chebyshev(2, 0, False),
    "chebyshev_polynomial_v": _chebyshev(2, -1, False),
    "chebyshev_polynomial_w": _chebyshev(2, 1, False),
    "shifted_chebyshev_polynomial_t": _chebyshev(1, 0, True),
    "shifted_chebyshev_polynomial_u": _chebyshev(2, 0, True),
    "shifted_chebyshev_polynomial_v": _chebyshev(2, -1, True),
    "shifted_chebyshev_polynomial_w": _chebyshev(2, 1, True),
    "hermite_polynomial_h": Recurrence(2, 0, _number(2), _number(0), _linear(2, 0)),
    "hermite_polynomial_he": Recurrence(1, 0, _number(1), _number(0), _linear(1, 0)),
    "laguerre_polynomial_l": Recurrence(-1, 1, _linear(0, -1, 1), _linear(2, 1, 1), _linear(1, 0, 1)),
    "legendre_polynomial_p": Recurrence(1, 0, _linear(2, 1, 1), _number(0), _linear(1, 0, 1)),
}


def _rule(family: Recurrence) -> Callable[..., Any]:
    def rule(g: Graph, x: Value, n: Value) -> Instruction:
        dtype = float_type(x, n)
        x, n = g.broadcast_operands(x, n, dtype=dt.f64)
        degree = g.convert(n, shape=n.shape.with_dtype(dt.s64))
        if family.shifted:
            x = g.subtract(g.add(x, x), g.full_like(x, 1))
        one = g.full_like(x, 1)
        first = g.add(g.multiply(x, g.full_like(x, family.slope)), g.full_like(x, family.offset))
        result = g.select(g.compare(degree, g.full_like(degree, 0), direction="EQ"), one, g.full_like(x, 0))
        result = g.select(g.compare(degree, g.full_like(degree, 1), direction="EQ"), first, result)
        highest = g.reduce_with(degree, "maximum", 0, range(x.shape.rank))

        def step(h: Graph, k: Instruction, state: list[Instruction]) -> list[Instruction]:
            before, current, result, x, degree = state
            at = h.full_like(x, k)
            factor = h.add(h.multiply(family.a(h, at), x), family.b(h, at))
            following = h.subtract(h.multiply(factor, current), h.multiply(family.c(h, at), before))
            reached = h.compare(degree, h.full_like(degree, h.add(k, h.scalar(1, dt.s64))), direction="EQ")
            return [current, following, h.select(reached, following, result), x, degree]

        count = g.subtract(highest, g.scalar(1, dt.s64))
        return g.cast(repeated(g, count, step, [one, first, result, x, degree], start=1)[2], dtype)

    return rule


for _name, _family in _FAMILIES.items():
    lowers(*[f"aten.special_{_name}.{k}" for k in ("default", "x_scalar", "n_scalar")])(_rule(_family))
