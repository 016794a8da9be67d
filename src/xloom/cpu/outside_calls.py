"""What passes must not change of the code outside that a program calls: its order, and its names in messages."""

from __future__ import annotations

from itertools import pairwise

from xloom.calls.registry import NAME
from xloom.hlo.module import Module
from xloom.passes.effects import Effects

_OUTSIDE = frozenset({"custom-call", "infeed", "recv"})


def keep_effects_in_order(module: Module) -> None:
    """Makes each instruction with an effect run after the one before it in its computation."""
    effects = Effects()
    for computation in module.computations:
        order = computation.instructions if module.config.is_scheduled else computation.post_order()
        for before, after in pairwise([i for i in order if effects.of(i)]):
            # even an operand: once a call is inlined, its effect and its value are two instructions
            after.add_control_predecessor(before)


def keep_names(module: Module) -> None:
    """Notes the name of each instruction that calls code outside, for inlining makes others."""
    for instruction in module.instructions:
        if instruction.opcode in _OUTSIDE:
            instruction.frontend_attributes = {**instruction.frontend_attributes, NAME: instruction.name}
