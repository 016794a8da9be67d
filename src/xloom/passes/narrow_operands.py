"""Products of bf16 that are converted to f32 first, where kernels multiply bf16 and add up in f32 faster."""

from __future__ import annotations

from xloom.hlo.dtype import bf16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class NarrowOperands(Pass):
    """Has products and convolutions read bf16 in place of the same numbers in f32.

    Each product of two bf16 is one of f32, so that only the order of the sums is another.
    """

    name = "narrow-operands"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# f(convert(x), convert(y)) == f(x, y); with sums in f32, of bf16
@rule("dot", "convolution")
def _narrowed(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i.shape.dtype is not f32 or i.backend_config or not all(map(is_widened, i.operands)):
        return None
    if i.opcode == "convolution" and max(i["feature_group_count"], i["batch_group_count"]) > 1:
        return None
    return rw.make(i.opcode, i.shape, [o.operands[0] for o in i.operands], **i.attrs)


def is_widened(i: Instruction) -> bool:
    """True of bf16 that is converted to a wider type."""
    return i.opcode == "convert" and i.operands[0].shape.dtype is bf16
