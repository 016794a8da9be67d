"""Fusion inlining."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.inline import inline
from xloom.passes.rewrite import editable_computations


@register
@dataclass(frozen=True)
class FusionInlining(Pass):
    """Puts fused computations in the place of their fusions, so that other passes see what they do.

    Those of kind kCustom, which a backend made for code of its own, stay unless `custom` says otherwise. The
    computations stay too: `dce` removes them.
    """

    name = "fusion-inlining"
    custom: bool = False

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        changed = False
        # callees first, so that what is copied has no fusions left in it
        for computation in editable_computations(module):
            for instruction in computation:
                if instruction.opcode == "fusion" and (self.custom or instruction["kind"] != "kCustom"):
                    inline(instruction, instruction["calls"])
                    changed = True
        return changed
