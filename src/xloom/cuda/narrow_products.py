"""Products of floats of 8 bits or less, which tensor cores multiply as bf16 or f16 without losing a digit."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.hlo.dtype import DType, bf16, f8e8m0fnu, f16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.replacement import replace_each
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
@dataclass(frozen=True)
class NarrowProducts(Pass):
    """Has products read operands of both types that tensor cores multiply with sums in f32."""

    name = "narrow-products"

    def run(self, module: Module) -> bool:
        """See the class."""
        return replace_each(module, rule)


# f(x, y) == f(convert(x), convert(y)); the wider type has all of their numbers, and sums are in f32 anyway
@rule("dot", "convolution")
def _widened(i: Instruction, rw: Rewriter) -> Instruction | None:
    types = {o.shape.dtype for o in i.operands}
    wider = f16 if f16 in types else bf16
    others = types - {wider}
    if i.shape.dtype not in (f32, f16, bf16) or not others or not all(map(_is_tiny, others)):
        return None
    return rw.make(i.opcode, i.shape, [rw.converted(o, wider) for o in i.operands], **i.attrs)


def _is_tiny(dtype: DType) -> bool:
    """Floats whose numbers bf16 and f16 have."""
    return dtype.is_float and dtype.bits <= 8 and dtype is not f8e8m0fnu
