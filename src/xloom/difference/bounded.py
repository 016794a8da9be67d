"""Which values may be roundings of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.bounds import RUNS, Bounds, leaves
from xloom.interpreter.perturbed import Perturbed
from xloom.interpreter.registry import RULES, Value
from xloom.sim.tolerance import EXACT, first_difference, usual

_MOST_BYTES = 1 << 28
"""Of values that are kept of all runs together."""


class _RecordedRun(Perturbed):
    """A run with other roundings that keeps values of the entry."""

    def __init__(self, module: Module, run: int, wanted: set[Instruction] | None):
        super().__init__(module, run, RULES)
        self._wanted = wanted
        self.recorded: dict[Instruction, Value] = {}

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Perturbed."""
        value = super().apply(instruction, operands)
        if instruction.parent is self.module.entry and (self._wanted is None or instruction in self._wanted):
            self.recorded[instruction] = value
        return value


class ProgramBounds:
    """What each instruction of a module's entry may give for some arguments, rounding of all before it included."""

    def __init__(self, module: Module, arguments: Sequence[Value]):
        self._module, self._arguments = module, arguments
        self._keeps = RUNS * sum(i.shape.nbytes for i in module.entry) <= _MOST_BYTES
        self._runs: list[dict[Instruction, Value]] = []

    def of(self, instructions: Sequence[Instruction]) -> list[list[Bounds]]:
        """The bounds of each leaf of each of these."""
        runs = self._runs or self._recorded(None if self._keeps else set(instructions))
        if self._keeps:
            self._runs = runs
        return [
            [Bounds(list(found)) for found in zip(*(leaves(run[i]) for run in runs), strict=True)] for i in instructions
        ]

    def _recorded(self, wanted: set[Instruction] | None) -> list[dict[Instruction, Value]]:
        found = []
        with np.errstate(all="ignore"):
            for number in range(RUNS):
                run = _RecordedRun(self._module, number, wanted)
                run.call(self._module.entry, self._arguments)
                found.append(run.recorded)
        return found


def wrong_leaf(found: Value, expected: Value, bounds: Sequence[Bounds]) -> tuple[int, np.ndarray] | None:
    """The first array of two values of which not both can be roundings of one: its number, and where that is."""
    for number, (got, wanted, bound) in enumerate(zip(leaves(found), leaves(expected), bounds, strict=True)):
        if first_difference(got, wanted, EXACT) is None:
            continue
        wrong = bound.wrong(got, wanted) | bound.wrong(wanted, got)
        if wrong.any():
            return number, wrong
    return None


def is_usual(instruction: Instruction, found: Value, expected: Value) -> bool:
    """Whether two algorithms for an instruction may rightly differ as much."""
    tolerance = usual(instruction)
    pairs = zip(leaves(found), leaves(expected), strict=True)
    return all(first_difference(got, wanted, tolerance) is None for got, wanted in pairs)
