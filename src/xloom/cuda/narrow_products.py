"""Products of numbers of 8 bits or less: tensor cores multiply floats as bf16 or f16, which have all of their digits,
and s8 and u8 as they are, if elements along the sums lie together."""

from __future__ import annotations

from xloom.hlo.dtype import DType, bf16, f8e8m0fnu, f16, f32, s8, s32, u8
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class NarrowProducts(Pass):
    """Has products read operands of types, and in an order, that tensor cores multiply."""

    name = "narrow-products"

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# f(x, y) == f(convert(x), convert(y)); the wider type has all of their numbers, and sums are in f32 anyway
@rule("dot", "convolution")
def _widened(i: Instruction, rw: Rewriter) -> Instruction | None:
    types = {o.shape.dtype for o in i.operands}
    wider = f16 if f16 in types else bf16
    others = types - {wider}
    if i.shape.dtype not in (f32, f16, bf16) or not others or not all(map(_is_tiny, others)):
        return None
    return rw.make(i.opcode, i.shape, [rw.converted(o, wider) for o in i.operands], **i.attrs)


# dot(convert(x), convert(y)) == dot(x, y), of s8 or u8 with sums in s32; dot(x, y) == dot(transpose(x), transpose(y))
@rule("dot")
def _of_bytes(i: Instruction, rw: Rewriter) -> Instruction | None:
    given = [o.operands[0] if o.opcode == "convert" and o.shape.dtype is s32 else o for o in i.operands]
    types = {o.shape.dtype for o in given}
    if i.shape.dtype is not s32 or types not in ({s8}, {u8}) or not i["lhs_contracting_dims"]:
        return None
    attributes, operands = dict(i.attrs), []
    for operand, side in zip(given, ("lhs", "rhs"), strict=True):
        batch, summed = i[f"{side}_batch_dims"], i[f"{side}_contracting_dims"]
        rank = operand.shape.rank
        order = [*batch, *(d for d in range(rank) if d not in (*batch, *summed)), *summed]
        if order[-1] != rank - 1:
            shape = array_shape(operand.shape.dtype, [operand.shape.dims[d] for d in order])
            operand = rw.make("transpose", shape, [operand], dimensions=tuple(order))
            attributes[f"{side}_batch_dims"] = tuple(range(len(batch)))
            attributes[f"{side}_contracting_dims"] = tuple(range(rank - len(summed), rank))
        operands.append(operand)
    return rw.make("dot", i.shape, operands, **attributes) if operands != list(i.operands) else None


def _is_tiny(dtype: DType) -> bool:
    """Floats whose numbers bf16 and f16 have."""
    return dtype.is_float and dtype.bits <= 8 and dtype is not f8e8m0fnu
