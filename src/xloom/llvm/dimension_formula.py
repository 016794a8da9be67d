"""What a kernel that serves many shapes needs of one of them: numbers computed of its sizes, under conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
"""By the signs that llvmlite has for them too."""
_TABLE = [(function, None) for function in COMPUTE.values()]
_TABLE += [(function, wanted) for wanted in (True, False) for function in COMPARISONS.values()]
_NUMBERS = {name: k for k, name in enumerate(COMPUTE)}
_CONDITIONS = {
    (name, w): len(COMPUTE) + k + (not w) * len(COMPARISONS)
    for w in (True, False)
    for k, name in enumerate(COMPARISONS)
}


STEP = 3
"""Numbers of a step: what it does, and the two values that it does that to."""


def run_steps(numbers: Sequence[int], values: list[int], at: int) -> int | None:
    """Puts what steps compute into `values` from `at` on: where that ends, None where a condition does not hold."""
    steps = iter(numbers)
    for number, x, y in zip(steps, steps, steps, strict=True):
        function, wanted = _TABLE[number]
        result = function(values[x], values[y])
        if wanted is None:
            values[at] = result
            at += 1
        elif result is not wanted:
            return None
    return at


@dataclass(frozen=True)
class DimensionFormula:
    """Plain numbers, as they are kept for other processes.

    Values have numbers: the sizes from 0 on, what is computed after them, constants from -1 downwards.
    """

    constants: list[int]
    """From the last one to the first."""
    steps: list[int]
    """`STEP` numbers each."""
    results: list[list[int]]
    """Values, in groups."""

    @cached_property
    def computed(self) -> int:
        """How many values the steps compute."""
        return sum(operation < len(COMPUTE) for operation in self.steps[::STEP])

    def of(self, sizes: Sequence[int]) -> list[list[int]] | None:
        """The results for these sizes, None where a condition does not hold."""
        values = [*sizes, *[0] * self.computed, *self.constants]
        if run_steps(self.steps, values, len(sizes)) is None:
            return None
        return [[values[k] for k in group] for group in self.results]


class FormulaWriter:
    """Writes a formula of so many sizes, step by step."""

    def __init__(self, sizes: int):
        self._next = sizes
        self._steps: list[int] = []
        self._constants: dict[int, int] = {}

    def constant(self, value: int) -> int:
        """The number of a constant; of a threshold that is a whole float, that of the integer which it equals."""
        whole = value if value % 1 else int(value)
        return self._constants.setdefault(whole, -1 - len(self._constants))

    def compute(self, operation: str, x: int, y: int) -> int:
        """The number of what is computed of two values."""
        self._steps += _NUMBERS[operation], x, y
        self._next += 1
        return self._next - 1

    def require(self, comparison: str, x: int, y: int, result: bool) -> None:
        """Adds the condition that `x comparison y` is `result`; x and y are numbers of values."""
        self._steps += _CONDITIONS[comparison, result], x, y

    def formula(self, results: Sequence[Sequence[int]]) -> DimensionFormula:
        """What was written, which gives these values."""
        return DimensionFormula(list(self._constants)[::-1], list(self._steps), [list(group) for group in results])
