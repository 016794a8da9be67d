"""Rounding of each narrow result to its type, for programs that are not to be computed with more digits than it has."""

from __future__ import annotations

from xloom.hlo.dtype import bf16, f16
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()
_EXACT = frozenset({"convert", "copy", "reduce-precision", "select"})
_ARITHMETIC = [name for name, op in OPCODES.items() if op.elementwise and name not in _EXACT]


@register
class ResultRounding(Pass):
    """Rounds what operators on bf16 and f16 give; backends otherwise may keep the f32 that they compute in.

    XLA's option `xla_allow_excess_precision=false` asks for it.
    """

    name = "result-rounding"

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# x op y == reduce-precision(x op y); of bf16 and f16
@rule(*_ARITHMETIC)
def _rounded(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i.shape.dtype not in (bf16, f16) or _is_reducer(i):
        return None
    if i.users and all(u.opcode == "reduce-precision" for u in i.users):
        return None
    return rounded(rw.make(i.opcode, i.shape, i.operands, **i.attrs), rw)


def rounded(x: Instruction, rw: Rewriter) -> Instruction:
    """An instruction that rounds `x`, of bf16 or f16, to its type."""
    mantissa = x.shape.dtype.mantissa_bits
    exponent = x.shape.dtype.bits - 1 - mantissa
    return rw.make("reduce-precision", x.shape, [x], exponent_bits=exponent, mantissa_bits=mantissa)


def _is_reducer(i: Instruction) -> bool:
    """True of all that a reducer computes: it is known by that, and its result is rounded anyway."""
    assert i.parent is not None
    return i is i.parent.root and i.shape.is_scalar and all(o.opcode == "parameter" for o in i.operands)
