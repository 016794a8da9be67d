"""The interpreter for programs that may not end, as a part of a program may have lost its loop's counter."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.errors import EvaluationError
from xloom.hlo.instruction import Instruction
from xloom.interpreter import Evaluator
from xloom.interpreter.registry import Value


class Limited(Evaluator):
    """Raises EvaluationError after so many instructions."""

    steps = 100_000

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        self.steps -= 1
        if not self.steps:
            raise EvaluationError("it does not end")
        return super().apply(instruction, operands)
