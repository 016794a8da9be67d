"""Canonical forms of reshape, transpose, broadcast, slice, pad, concatenate and copy."""

from __future__ import annotations

from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.layout import RULES
from xloom.passes.rewrite import rewrite


@register
class LayoutSimplification(Pass):
    """Removes movements of elements that cancel, merges those in a row, and computes before it broadcasts.

    `bitcast` stays: what it means depends on memory layout.
    """

    name = "layout-simplification"
    opcodes = RULES.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, RULES)
