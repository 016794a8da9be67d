"""Result shapes: the registry of rules, one per opcode, and the one function that applies them.

A rule is `rule(operands, attrs) -> Shape` with the operand shapes and the attribute values; a called computation is
seen through `.parameters[i].shape` and `.root.shape`. Semantics: XLA's `ShapeInference`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.shape import Shape

Rule = Callable[[Sequence[Shape], Mapping[str, Any]], Shape]
RULES: dict[str, Rule] = {}


def infers(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers a rule for `opcodes`."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return register


def infer_shape(opcode: str, operands: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """The result shape of `opcode`. Raises ShapeError when operands or attributes do not fit, or it needs a shape."""
    rule = RULES.get(opcode)
    if rule is None:
        raise ShapeError(
            f"the shape of {opcode} cannot be inferred", where=opcode, hint="write it: shape= of a builder"
        )
    try:
        return rule(operands, attrs)
    except ShapeError as error:
        if error.where:
            raise
        hint = error.hint or f"`xloom ops {opcode}` says what it takes"
        raise ShapeError(f"{opcode}: {error.message}", where=opcode, hint=hint) from None
