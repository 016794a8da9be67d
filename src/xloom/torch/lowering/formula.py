"""Arrays in formulas: what lowerings of many steps are written with."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph


class Formula:
    """An array, combined with others of its shape and dtype, and with numbers."""

    def __init__(self, g: Graph, array: Instruction):
        self.g, self.array = g, array

    def number(self, value: float) -> Formula:
        """A number in the shape and dtype of this."""
        return Formula(self.g, self.g.full_like(self.array, value))

    def _array(self, other: Formula | float) -> Instruction:
        return other.array if isinstance(other, Formula) else self.g.full_like(self.array, other)

    def _of(self, opcode: str, *others: Formula | float) -> Formula:
        return Formula(self.g, getattr(self.g, opcode)(self.array, *map(self._array, others)))

    def __add__(self, other: Formula | float) -> Formula:
        return self._of("add", other)

    def __sub__(self, other: Formula | float) -> Formula:
        return self._of("subtract", other)

    def __rsub__(self, other: float) -> Formula:
        return self.number(other) - self

    def __mul__(self, other: Formula | float) -> Formula:
        return self._of("multiply", other)

    def __truediv__(self, other: Formula | float) -> Formula:
        return self._of("divide", other)

    def __rtruediv__(self, other: float) -> Formula:
        return self.number(other) / self

    def __neg__(self) -> Formula:
        return self._of("negate")

    def __abs__(self) -> Formula:
        return self._of("abs")

    def __and__(self, other: Formula) -> Formula:
        return self._of("and_", other)

    def __or__(self, other: Formula) -> Formula:
        return self._of("or_", other)

    def __invert__(self) -> Formula:
        return self._of("not_")

    def _compared(self, other: Formula | float, direction: str) -> Formula:
        return Formula(self.g, self.g.compare(self.array, self._array(other), direction=direction))

    def __lt__(self, other: Formula | float) -> Formula:
        return self._compared(other, "LT")

    def __le__(self, other: Formula | float) -> Formula:
        return self._compared(other, "LE")

    def __gt__(self, other: Formula | float) -> Formula:
        return self._compared(other, "GT")

    def __ge__(self, other: Formula | float) -> Formula:
        return self._compared(other, "GE")

    def where(self, condition: Formula, other: Formula | float) -> Formula:
        """This where `condition`, which is of pred, is true; `other` elsewhere."""
        return Formula(self.g, self.g.select(condition.array, self.array, self._array(other)))

    def least(self, bound: Formula | float) -> Formula:
        """The greater of this and a bound."""
        return self._of("maximum", bound)

    def most(self, bound: Formula | float) -> Formula:
        """The lesser of this and a bound."""
        return self._of("minimum", bound)

    def log(self) -> Formula:
        """The natural logarithm."""
        return self._of("log")

    def log1p(self) -> Formula:
        """log(1 + x)."""
        return self._of("log_plus_one")

    def exp(self) -> Formula:
        """e to this."""
        return self._of("exponential")

    def sqrt(self) -> Formula:
        """The square root."""
        return self._of("sqrt")

    def cbrt(self) -> Formula:
        """The cube root."""
        return self._of("cbrt")

    def floor(self) -> Formula:
        """The greatest whole number below."""
        return self._of("floor")

    def as_dtype(self, dtype: dt.DType) -> Instruction:
        """The array in another dtype."""
        return self.g.cast(self.array, dtype)


def formulas(g: Graph, *arrays: Instruction) -> list[Formula]:
    """Each as a formula of g."""
    return [Formula(g, array) for array in arrays]


def arrays(*formulas: Formula) -> list[Instruction]:
    """Their arrays."""
    return [formula.array for formula in formulas]
