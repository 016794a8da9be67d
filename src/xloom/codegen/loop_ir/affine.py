"""Index arithmetic: sums of loop variables with constant factors, and their exact division."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Var:
    """An integer in [0, size): a loop's counter, or a number that `node` computes (a gathered index, say).

    `number` orders the variables of a kernel, and tells them apart.
    """

    name: str
    size: int
    node: Any = None
    number: int = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and other.number == self.number

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Affine:
    """`const + sum(factor * variable)`. Equal sums compare equal."""

    const: int = 0
    terms: tuple[tuple[Var, int], ...] = ()

    def __hash__(self) -> int:
        return hash((self.const, self.terms))

    @property
    def low(self) -> int:
        """The least value that it has for any values of its variables."""
        return self.const + sum(f * (v.size - 1) for v, f in self.terms if f < 0 and v.size > 0)

    @property
    def high(self) -> int:
        """The greatest value that it has for any values of its variables."""
        return self.const + sum(f * (v.size - 1) for v, f in self.terms if f > 0 and v.size > 0)

    @property
    def is_constant(self) -> bool:
        """True of an expression without variables."""
        return not self.terms

    def factor(self, var: Var) -> int:
        """What `var` is multiplied with; 0 when it does not occur."""
        return next((f for v, f in self.terms if v == var), 0)

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.const + other, self.terms) if other else self
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        factors = dict(self.terms)
        for var, factor in other.terms:
            factors[var] = factors.get(var, 0) + factor
        return _sum(self.const + other.const, factors)

    def __mul__(self, by: int) -> Affine:
        if by == 1:
            return self
        if by == 0:
            return ZERO
        return Affine(self.const * by, tuple((v, f * by) for v, f in self.terms))

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other if isinstance(other, int) else other * -1)

    def divmod(self, by: int) -> tuple[Affine, Affine] | None:
        """Quotient and remainder by a positive constant, where both are affine; None where they are not."""
        if by == 1:
            return self, ZERO
        whole = {v: f // by for v, f in self.terms if f % by == 0}
        rest = {v: f for v, f in self.terms if f % by}
        remainder = _sum(self.const % by, rest)
        quotient = _sum(self.const // by, whole)
        if remainder.low >= 0 and remainder.high < by:
            return quotient, remainder
        # a constant that is taken from the other side of a multiple may make it fit
        remainder = _sum(self.const % by - by, rest)
        if remainder.low >= 0 and remainder.high < by:
            return quotient + 1, remainder
        return None

    def substitute(self, replacements: dict[Var, Affine]) -> Affine:
        """The expression with others in place of variables."""
        if not any(v in replacements for v, _ in self.terms):
            return self
        out = Affine(self.const)
        for var, factor in self.terms:
            out = out + replacements.get(var, variable(var)) * factor
        return out

    def __str__(self) -> str:
        parts = [f"{v.name}" if f == 1 else f"{f}*{v.name}" for v, f in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


ZERO = Affine()


Ranges = Mapping[Var, tuple[int, int]]
"""Least and greatest values of variables, where that is less than all of them."""
EVERYWHERE: Ranges = {}


def range_of(expression: Affine, known: Ranges) -> tuple[int, int]:
    """The least and the greatest value of an index expression."""
    low = high = expression.const
    for var, factor in expression.terms:
        ends = [factor * end for end in known.get(var, (0, var.size - 1))]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _sum(const: int, factors: dict[Var, int]) -> Affine:
    return Affine(const, tuple(sorted(((v, f) for v, f in factors.items() if f), key=lambda t: t[0].number)))


def constant(value: int) -> Affine:
    """The expression of a number."""
    return Affine(value)


def variable(var: Var) -> Affine:
    """The expression of one variable; 0 for a variable that has only that value."""
    return Affine(0, ((var, 1),)) if var.size != 1 else ZERO


def linear(index: tuple[Affine, ...], dims: tuple[int, ...]) -> Affine:
    """The position of an element in row-major order."""
    out, stride = ZERO, 1
    for i, size in zip(reversed(index), reversed(dims), strict=True):
        out = out + i * stride
        stride *= size
    return out
