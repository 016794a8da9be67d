"""What an evaluation rule is, and the registry of them, one per opcode.

A value is a NumPy array of the shape's dtype (rank-0 for scalars), a tuple of values, or `TOKEN`. An array whose shape
has dynamic dimensions holds just the elements within the run-time sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator

Value = Any  # np.ndarray | tuple[Value, ...] | Token
Rule = Callable[["Instruction", Sequence[Value], "Evaluator"], Value]
RULES: dict[str, Rule] = {}


class Token:
    """The one value of type token."""

    def __repr__(self) -> str:
        return "token"


TOKEN = Token()


def evaluates(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers a rule for `opcodes`: `rule(instruction, operand_values, evaluator) -> value`."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return register
