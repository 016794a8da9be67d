"""Products with masks, as XLA has them: what is masked is 0, also of infinities and NaN.

By IEEE 754, and by the interpreter, 0 times infinity is NaN. XLA's simplification of algebra makes a selection of such
a product (`AlgebraicSimplifierVisitor::HandleMultiply`), and programs of JAX count on it: `(x != 0) * (1 / x)`. So this
is no pass, whose results would be what they were, but part of what StableHLO means that comes through PJRT.
"""

from __future__ import annotations

from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

_rule = RuleTable()


def select_masked(module: Module) -> None:
    """Has masks select that are converted to numbers and multiplied."""
    rewrite(module, _rule)


# x * convert(mask) -> select(mask, x, 0)
@_rule("multiply")
def _masked(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i.shape.is_dynamic:
        return None
    for x, factor in (i.operands, reversed(i.operands)):
        if factor.opcode == "convert" and factor.operands[0].shape.dtype.kind is Kind.PRED:
            return rw.make("select", i.shape, [factor.operands[0], x, rw.splat(i.shape, 0)])
    return None
