"""Dots of vectors that the program computes, as sums of what is computed element by element."""

from __future__ import annotations

from xloom.hlo.dtype import f32, f64
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class DotStrengthReduction(Pass):
    """A vector that is computed for a dot alone is not stored first: a loop that adds up has it in a register.

    It may also be masked, which leaves such a loop less to do.
    """

    name = "dot-strength-reduction"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


# dot(x, y) == sum(x * y)
@rule("dot")
def _of_vectors(i: Instruction, rw: Rewriter) -> Instruction | None:
    dtype, (x, y) = i.shape.dtype, i.operands
    if i.shape.rank or x.shape.rank != 1 or dtype not in (f32, f64) or i["algorithm"] != "unset":
        return None
    if {x.shape.dtype, y.shape.dtype} != {dtype} or not any(_is_computed_for_this(o) for o in (x, y)):
        return None
    zero = rw.constant(array_shape(dtype, ()), 0)
    products = rw.make("multiply", x.shape, [x, y])
    return rw.make("reduce", i.shape, [products, zero], dimensions=(0,), to_apply=rw.sum_of(dtype))


def _is_computed_for_this(operand: Instruction) -> bool:
    return operand.op.elementwise and operand.opcode != "copy" and len(operand.users) == 1
