"""Factorisations and solutions of narrow floats, computed in f32 and rounded once."""

from __future__ import annotations

from xloom.hlo.dtype import f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class LinearAlgebraWidening(Pass):
    """Computes cholesky and triangular-solve of floats narrower than f32 in f32: roundings at each step add up."""

    name = "linear-algebra-widening"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# op(x) == convert(op(convert(x)))
@rule("cholesky", "triangular-solve")
def _widened(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not i.shape.dtype.is_float or i.shape.dtype.bits >= 32:
        return None
    operands = [rw.make("convert", o.shape.with_dtype(f32), [o]) for o in i.operands]
    return rw.make("convert", i.shape, [rw.make(i.opcode, i.shape.with_dtype(f32), operands, **i.attrs)])
