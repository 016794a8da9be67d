"""Dead code elimination."""

from __future__ import annotations

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.effects import Effects


@register
class DeadCodeElimination(Pass):
    """Removes instructions without users, and computations that the entry cannot reach.

    Parameters and instructions with effects stay. What had to run before a removed instruction still runs before
    what had to run after it.
    """

    name = "dce"

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        changed = remove_unreachable_computations(module)
        effects = Effects()
        for computation in module.computations:
            changed |= remove_dead(computation, effects)
        # a removed call may have been the last one
        return remove_unreachable_computations(module) or changed


def remove_dead(computation: Computation, effects: Effects) -> bool:
    """Removes what is unused from one computation; True if there was anything."""
    if not any(instruction.is_dead and instruction.opcode != "parameter" for instruction in computation):
        return False
    before = len(computation)
    for instruction in reversed(computation.post_order()):  # users first: one sweep is enough
        if instruction.is_dead and instruction.opcode != "parameter" and not effects.of(instruction):
            remove_keeping_order(instruction)
    return len(computation) != before


def remove_keeping_order(instruction: Instruction) -> None:
    """Removes an unused instruction; its control predecessors stay ordered before its control successors."""
    before, after = instruction.control_predecessors, instruction.control_successors
    assert instruction.parent is not None
    instruction.parent.remove(instruction)
    for successor in after:
        for predecessor in before:
            successor.add_control_predecessor(predecessor)


def remove_unreachable_computations(module: Module) -> bool:
    """Removes the computations that the entry does not call, directly or not; True if there were any."""
    reached = set(callees_first([module.entry]))
    dead = [c for c in module.computations if c not in reached]
    for computation in dead:
        module.remove(computation)
    return bool(dead)
