"""What passes must not change of the code outside that a program calls: its order, and its names in messages."""

from __future__ import annotations

from itertools import pairwise

from xloom.calls.registry import NAME, is_registered
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import BUILT_IN
from xloom.passes.base import Pass, register
from xloom.passes.effects import WITH_EFFECTS, Effects

_OUTSIDE = frozenset({"custom-call", "infeed", "recv"})


@register
class EffectOrdering(Pass):
    """Each instruction with an effect runs after the one before it in its computation, by a control dependency.

    In a module with a schedule, all calls of code outside run as that says.
    """

    name = "effect-ordering"
    opcodes = WITH_EFFECTS | _OUTSIDE

    def run(self, module: Module) -> bool:
        """See the class."""
        effects, changed = Effects(), False
        scheduled = module.config.is_scheduled
        for computation in module.computations:
            order = computation.instructions if scheduled else computation.post_order()
            ordered = [i for i in order if effects.of(i) or (scheduled and _is_outside(i))]
            for before, after in pairwise(ordered):
                # even an operand: once a call is inlined, its effect and its value are two instructions
                changed |= before not in after.control_predecessors
                after.add_control_predecessor(before)
        return changed


def _is_outside(instruction: Instruction) -> bool:
    if instruction.opcode != "custom-call":
        return instruction.opcode in _OUTSIDE
    target = instruction["custom_call_target"]
    return target not in BUILT_IN or is_registered(target)


@register
class CallNaming(Pass):
    """Notes the name of each instruction that calls code outside, for messages: inlining makes others."""

    name = "call-naming"
    opcodes = _OUTSIDE

    def run(self, module: Module) -> bool:
        """See the class."""
        found = [i for i in module.instructions if i.opcode in _OUTSIDE and NAME not in i.frontend_attributes]
        for instruction in found:
            instruction.frontend_attributes = {**instruction.frontend_attributes, NAME: instruction.name}
        return bool(found)
