"""Methods of a simulated device as what it computes an operator with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import RULES, Rule, Value

_OPCODES, _TYPES = "_xloom_opcodes", "_xloom_types"


def operator(*opcodes: str, types: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a method of a `Simulator` its rule for opcodes: `method(self, instruction, *operands)` gives the value.

    Operands are arrays in the device's memory, which the method must not change. With `types`, names of element types
    with spaces between, it is for results of these alone.
    """

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        setattr(method, _OPCODES, opcodes)
        setattr(method, _TYPES, frozenset(types.split()))
        return method

    return mark


def methods_of(kind: type) -> Mapping[str, str]:
    """The names of the methods that are rules, by opcode; a subclass goes before its bases."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        for name, value in vars(each).items():
            found.update(dict.fromkeys(getattr(value, _OPCODES, ()), name))
    return found


def has_type(device: Any, instruction: Instruction) -> bool:
    """Whether the method for an instruction, if it is one, is for its type."""
    return _is_for(getattr(device, methods_of(type(device)).get(instruction.opcode, ""), None), instruction)


def bound_rule(device: Any, name: str) -> Rule:
    """A method of a device as a rule of an evaluator."""
    method = getattr(device, name)

    def rule(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Any:
        if not _is_for(method, instruction):
            return RULES[instruction.opcode](instruction, operands, evaluator)
        return method(instruction, *operands)

    return rule


def _is_for(method: Any, instruction: Instruction) -> bool:
    types = getattr(method, _TYPES, ())
    return not types or instruction.shape.dtype.name in types
