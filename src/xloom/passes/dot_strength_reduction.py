"""Dots as sums of what is computed element by element: of vectors that the program computes, and of a few numbers."""

from __future__ import annotations

import math

from xloom.hlo.dtype import f32, f64
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()
_FEW, _PRODUCTS = 9, 64
"""Numbers of a result, or that are added up, and products of all, at most."""


@register
class DotStrengthReduction(Pass):
    """A vector that is computed for a dot alone is not stored first: a loop that adds up has it in a register.

    It may also be masked, which leaves such a loop less to do. A few numbers, such as the state of a small system, stay
    in registers all the time, where a kernel of products would have to be called for them.
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


# dot(x, y)[i, j] == sum(broadcast(x)[i, j, k] * broadcast(y)[i, j, k], k)
@rule("dot")
def _of_few(i: Instruction, rw: Rewriter) -> Instruction | None:
    dtype, (x, y) = i.shape.dtype, i.operands
    if dtype not in (f32, f64) or {x.shape.dtype, y.shape.dtype} != {dtype} or i["algorithm"] != "unset":
        return None
    contracted = i["lhs_contracting_dims"], i["rhs_contracting_dims"]
    summed = [x.shape.dims[d] for d in contracted[0]]
    rank = i.shape.rank
    count, extent = i.shape.size, math.prod(summed)
    if i["lhs_batch_dims"] or not summed or max(count, extent) > _FEW or count * extent > _PRODUCTS:
        return None
    whole = array_shape(dtype, (*i.shape.dims, *summed))
    free, operands = iter(range(rank)), []
    for operand, dims in zip((x, y), contracted, strict=True):
        places = [rank + dims.index(d) if d in dims else next(free) for d in range(operand.shape.rank)]
        order = sorted(range(len(places)), key=places.__getitem__)
        if order != list(range(len(places))):
            shape = array_shape(dtype, [operand.shape.dims[d] for d in order])
            operand = rw.make("transpose", shape, [operand], dimensions=tuple(order))
        operands.append(rw.make("broadcast", whole, [operand], dimensions=tuple(sorted(places))))
    zero = rw.constant(array_shape(dtype, ()), 0)
    products = rw.make("multiply", whole, operands)
    return rw.make(
        "reduce", i.shape, [products, zero], dimensions=tuple(range(rank, whole.rank)), to_apply=rw.sum_of(dtype)
    )


def _is_computed_for_this(operand: Instruction) -> bool:
    return operand.op.elementwise and operand.opcode != "copy" and len(operand.users) == 1
