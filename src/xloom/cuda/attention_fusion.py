"""Attention as one instruction, so that the scores, which are more than all else, never go to memory."""

from __future__ import annotations

from xloom.codegen.fusion.custom_fusion import fuse
from xloom.cuda.attention import attention_of, ends_of
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import editable_computations


@register
class AttentionFusion(Pass):
    """Attention in types that tensor cores multiply becomes kCustom fusions, if nothing else reads what is between."""

    name = "attention-fusion"
    opcodes = ("dot",)

    def run(self, module: Module) -> bool:
        """See the class."""
        changed = False
        for computation in editable_computations(module):
            for dot in [i for i in computation if i.opcode == "dot"]:
                if dot.parent is not computation:  # an attention before has it
                    continue
                root = ends_of(dot)
                found = attention_of(root)
                if found is not None:
                    fuse(module, root, found.inside - {root}, "attention")
                    changed = True
        return changed
