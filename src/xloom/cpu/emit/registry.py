"""The registry of scalar code generation rules, one an elementwise opcode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def emits(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers `rule(builder, instruction, *operand_values) -> value`."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return register
