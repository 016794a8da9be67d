"""Choices between operators of one kind, as operators of what is chosen."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.match import splat
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class ChoiceSinking(Pass):
    """Makes of a choice between two polynomials one polynomial with chosen coefficients.

    For code generation: patterns of operators are known as frameworks write them.
    """

    name = "choice-sinking"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


# select(p, x + c, y + d) == select(p, x, y) + select(p, c, d);  the same of products; c and d constants, or the same
@rule("select")
def _choice_of_operands(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    if a.opcode != b.opcode or a.opcode not in ("add", "multiply") or a is b or {*a.users, *b.users} != {i}:
        return None
    (x, c), (y, d) = a.operands, b.operands
    if c is not d and (splat(c) is None or splat(d) is None):
        return None
    operands = [m if m is n else rw.make("select", i.shape, [p, m, n]) for m, n in ((x, y), (c, d))]
    return rw.make(a.opcode, i.shape, operands)
