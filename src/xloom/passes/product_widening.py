"""Products whose result has fewer digits than what is added up."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.product_type import product_type
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class ProductWidening(Pass):
    """Computes a dot in the type of its sums and converts them, as XLA:CPU does: kernels convert operands first."""

    name = "product-widening"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# dot(x, y) == convert(dot(x, y) in the type of x and y)
@rule("dot")
def _widened(i: Instruction, rw: Rewriter) -> Instruction | None:
    dtype = product_type(i)
    if dtype is i.shape.dtype:
        return None
    return rw.make("convert", i.shape, [rw.make("dot", i.shape.with_dtype(dtype), i.operands, **i.attrs)])
