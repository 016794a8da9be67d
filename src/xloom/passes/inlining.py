"""Inlining of every call and fusion, whatever asks for them to stay."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.call_expansion import expand_from_outside, is_deep
from xloom.passes.computation_inlining import inline
from xloom.passes.dce import remove_unreachable_computations

_INLINED = frozenset({"call", "fusion"})


@register
class Inlining(Pass):
    """Puts called and fused computations in the place of what calls them: native code has no other use for them."""

    name = "inlining"
    opcodes = _INLINED

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        if is_deep(module.entry, _INLINED):
            changed = expand_from_outside(module.entry, _inlined)
            remove_unreachable_computations(module)
            return changed
        changed = False
        for computation in module.computation_post_order():
            for instruction in computation.instructions:
                changed |= _inlined(instruction) is not None
        return changed


def _inlined(instruction: Instruction) -> list[Instruction] | None:
    if instruction.opcode not in _INLINED:
        return None
    return inline(instruction, instruction.called_computations[0]).copies
