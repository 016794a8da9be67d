"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.effects import Effects
from xloom.passes.rewrite import editable_computations
from xloom.passes.structural_identity import StructuralIdentity

_SEPARATE = frozenset({"parameter", "opt-barrier", "async-start", "async-update", "async-done", "copy-start", "domain"})
_FIRST = "first"
"""The key of the only one so far of those that are alike at first sight."""


@register
class CommonSubexpressionElimination(Pass):
    """Keeps the first of the instructions that compute the same from the same operands.

    Instructions with effects, random numbers, tokens, barriers, and those with control dependencies stay apart.
    """

    name = "cse"

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        structure, effects = StructuralIdentity(), Effects()
        changed = False
        for computation in editable_computations(module):
            changed |= _merge(computation, structure, effects)
        return changed


def _merge(computation: Computation, structure: StructuralIdentity, effects: Effects) -> bool:
    alike: dict[Hashable, dict[Hashable, Instruction]] = {}
    numbers: dict[Instruction, int] = {}
    merged: dict[Instruction, Instruction] = {}
    for instruction in computation.post_order():
        operands = instruction.operands
        if merged and any(o in merged for o in operands):
            operands = tuple([merged.get(o, o) for o in operands])
            instruction.set_operands(operands)
        places = tuple([numbers[o] for o in operands])
        numbers[instruction] = len(numbers)
        if _stays_apart(instruction, effects):
            continue
        rough = (instruction.opcode, instruction.shape, tuple(sorted(places)))
        found = alike.get(rough)
        if found is None:  # as for most, whose keys need not be known
            alike[rough] = {_FIRST: instruction}
            continue
        first = found.pop(_FIRST, None)
        if first is not None:
            found[structure.key(first, tuple([numbers[o] for o in first.operands]))] = first
        kept = found.setdefault(structure.key(instruction, places), instruction)
        if kept is not instruction:
            merged[instruction] = kept
    computation.root = merged.get(computation.root, computation.root)
    for instruction in merged:
        computation.remove(instruction)
    return bool(merged)


def _stays_apart(instruction: Instruction, effects: Effects) -> bool:
    return (
        instruction.opcode in _SEPARATE
        or bool(instruction._predecessors)
        or bool(instruction._successors)
        or _has_token(instruction.shape)
        or effects.of(instruction)
    )


def _has_token(shape: Shape) -> bool:
    return shape.is_token or (shape.is_tuple and any(_has_token(e) for e in shape.elements))
