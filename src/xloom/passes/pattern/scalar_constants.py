"""Numbers that a program computes from constants alone, such as `sqrt(convert(8))`: to a pattern they are constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.interpreter import evaluate

_MOST_OPERATORS = 8
_OF_ONE_ELEMENT = frozenset({"reshape", "broadcast", "reduce"})


def as_constant(program: Instruction) -> tuple[Instruction, tuple[Instruction, ...]] | None:
    """A constant of the value of `program`, in no computation, and what that is computed from, `program` included.

    None for what has several elements, or needs more than some operators and constants.
    """
    if not _has_one(program) or program.opcode == "constant":
        return None
    inside = _computed_from(program)
    if inside is None:
        return None
    value: Any = _value(program, inside)
    made = Instruction(program.name, "constant", program.shape, (), {"literal": literal(value)})
    return made, inside


def _computed_from(program: Instruction) -> tuple[Instruction, ...] | None:
    """What `program` is computed from, operands first."""
    found: dict[Instruction, None] = {}
    stack = [program]
    while stack:
        instruction = stack.pop()
        computes = instruction.op.elementwise or instruction.opcode in _OF_ONE_ELEMENT
        if instruction.opcode != "constant" and not (computes and instruction.operands):
            return None
        if not _has_one(instruction) or (instruction.opcode == "constant" and instruction.literal.elided):
            return None
        found.pop(instruction, None)
        found[instruction] = None
        if len(found) > 2 * _MOST_OPERATORS:
            return None
        stack.extend(instruction.operands)
    return tuple(reversed(found))


def _has_one(instruction: Instruction) -> bool:
    return instruction.shape.is_array and instruction.shape.size == 1


def _value(program: Instruction, inside: tuple[Instruction, ...]) -> np.ndarray:
    module, entry = Module("scalar"), Computation("scalar")
    made: dict[Instruction, Instruction] = {}
    for old in inside:
        made[old] = entry.add(old.clone([made[o] for o in old.operands]))
    entry.root = made[program]
    module.add(entry, entry=True)
    return np.asarray(evaluate(module))
