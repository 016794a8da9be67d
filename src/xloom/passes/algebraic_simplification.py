"""Algebraic simplification: the equations in `passes/algebra`, applied until none fires."""

from __future__ import annotations

from xloom.hlo.module import Module
from xloom.passes.algebra import RULES
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import rewrite


@register
class AlgebraicSimplification(Pass):
    """Replaces elementwise expressions by simpler ones of the same value, bit for bit (but for NaN's bits)."""

    name = "algebraic-simplification"
    opcodes = RULES.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, RULES)
