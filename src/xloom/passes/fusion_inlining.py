"""Fusion inlining."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.call_expansion import expand_all
from xloom.passes.computation_inlining import inline


@register
@dataclass(frozen=True)
class FusionInlining(Pass):
    """Puts fused computations in the place of their fusions, so that other passes see what they do.

    Those of kind kCustom, which a backend made for code of its own, stay unless `custom` says otherwise. The
    computations stay too, as they are where fusions go deep: `dce` removes them.
    """

    name = "fusion-inlining"
    custom: bool = False

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        return expand_all(module, ("fusion",), self._inlined)

    def _inlined(self, instruction: Instruction) -> list[Instruction] | None:
        if instruction.opcode != "fusion" or (instruction["kind"] == "kCustom" and not self.custom):
            return None
        return inline(instruction, instruction["calls"]).copies
