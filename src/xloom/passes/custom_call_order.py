"""What passes must not change of the code outside that a program calls: its order, and its names in messages."""

from __future__ import annotations

from itertools import pairwise

from xloom.calls.registry import NAME, is_registered
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import BUILT_IN
from xloom.passes.effects import Effects

_OUTSIDE = frozenset({"custom-call", "infeed", "recv"})


def keep_effects_in_order(module: Module) -> None:
    """Makes each instruction with an effect run after the one before it in its computation.

    In a module with a schedule, all calls of code outside run as that says.
    """
    effects = Effects()
    scheduled = module.config.is_scheduled
    for computation in module.computations:
        order = computation.instructions if scheduled else computation.post_order()
        ordered = [i for i in order if effects.of(i) or (scheduled and _is_outside(i))]
        for before, after in pairwise(ordered):
            # even an operand: once a call is inlined, its effect and its value are two instructions
            after.add_control_predecessor(before)


def _is_outside(instruction: Instruction) -> bool:
    if instruction.opcode != "custom-call":
        return instruction.opcode in _OUTSIDE
    target = instruction["custom_call_target"]
    return target not in BUILT_IN or is_registered(target)


def keep_names(module: Module) -> None:
    """Notes the name of each instruction that calls code outside, for inlining makes others."""
    for instruction in module.instructions:
        if instruction.opcode in _OUTSIDE:
            instruction.frontend_attributes = {**instruction.frontend_attributes, NAME: instruction.name}
