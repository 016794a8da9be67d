"""Computations and zeros that several loops, branches or scatters share: each gets its own, for each has own memory."""

from __future__ import annotations

from xloom.codegen.fusion.custom_fusion import fused_root
from xloom.codegen.ops import OP_ROWS, Role
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register


@register
class ControlFlowSeparation(Pass):
    """Gives each loop and branch computations of its own, and equal numbers of its own: none is a copy of another's."""

    name = "control-flow-separation"

    def run(self, module: Module) -> bool:
        """Clones shared computations and fills; True when the module changed."""
        taken: set[Computation] = set()
        changed = False

        def own(computation: Computation) -> Computation:
            nonlocal changed
            if computation in taken:
                computation, changed = computation.clone(), True
            taken.add(computation)
            return computation

        stack = [module.entry]
        while stack:
            computation = stack.pop()
            for instruction in computation.instructions:
                if fused_root(instruction).opcode == "scatter":
                    changed |= _fill_for(computation, instruction)
                if OP_ROWS[instruction.opcode].role is Role.CONTROL:
                    for state in instruction.operands:
                        if state.opcode == "tuple":
                            changed |= _fill_for(computation, state)
                    map_called(instruction, own)
                    stack.extend(instruction.called_computations)
        return changed


def _fill_for(computation: Computation, user: Instruction) -> bool:
    """Makes equal numbers anew for each array that begins with them, so that none is a copy."""
    changed = False
    for k, numbers in enumerate(user.operands):
        if numbers.opcode != "broadcast" or numbers.operands[0].opcode != "constant":
            continue
        if len(numbers.users) > 1 or user.operands.count(numbers) > 1:
            user.replace_operand(k, computation.add(numbers.clone()))
            changed = True
    return changed
