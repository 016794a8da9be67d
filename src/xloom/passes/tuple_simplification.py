"""Tuples that are taken apart again, and parts that are put together again."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class TupleSimplification(Pass):
    """Removes get-tuple-element of tuple, and tuple of the elements of one tuple."""

    name = "tuple-simplification"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule, dynamic=True)


# get-tuple-element(tuple(x0, x1, ...), k) == xk
@rule("get-tuple-element")
def _element_of_tuple(i: Instruction, rw: Rewriter) -> Instruction | None:
    whole = i.operands[0]
    return whole.operands[i["index"]] if whole.opcode == "tuple" else None


# tuple(get-tuple-element(x, 0), get-tuple-element(x, 1), ...) == x; all elements of x, in order
@rule("tuple")
def _tuple_of_elements(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not i.operands or i.operands[0].opcode != "get-tuple-element":
        return None
    whole = i.operands[0].operands[0]
    same = all(
        x.opcode == "get-tuple-element" and x["index"] == k and x.operands[0] is whole for k, x in enumerate(i.operands)
    )
    return whole if same else None
