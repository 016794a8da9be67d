"""The registry of scalar code generation rules, one an elementwise opcode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
ROUNDED: set[str] = set()
"""Opcodes whose rules compute narrow floats in f32 and leave it to their caller to round them."""


def emits(*opcodes: str, rounded: bool = True) -> Callable[[Rule], Rule]:
    """Registers `rule(builder, operator, *operand_values) -> value`."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        if not rounded:
            ROUNDED.update(opcodes)
        return rule

    return register
