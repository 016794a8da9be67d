"""broadcast, and what it commutes with."""

from __future__ import annotations

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.match import ELEMENTWISE, splat
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


# broadcast(x, {0, 1, ...}) == x; to x's own shape
@rule("broadcast")
def _identity(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    return x if x.shape == i.shape and i["dimensions"] == tuple(range(x.shape.rank)) else None


# broadcast(broadcast(x, p), q) == broadcast(x, q[p])
@rule("broadcast")
def _broadcast_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    q = i["dimensions"]
    return rw.make("broadcast", i.shape, inner.operands, dimensions=tuple(q[p] for p in inner["dimensions"]))


# broadcast(x, d) == reshape(x); when only dimensions of size 1 are new
@rule("broadcast")
def _adds_ones(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, dims = i.operands[0], i["dimensions"]
    # modules that were not verified may say dimensions in another order
    if x.shape.size != i.shape.size or list(dims) != sorted(dims) or not i.shape.size:
        return None
    return rw.make("reshape", i.shape, [x])


# transpose(broadcast(x, p), q) == broadcast(transpose(x, s), q**-1[p][s]); s sorts, since a broadcast keeps the order
@rule("transpose")
def _transposed_broadcast(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    x = inner.operands[0]
    place = {old: new for new, old in enumerate(i["dimensions"])}
    places = [place[p] for p in inner["dimensions"]]
    order = sorted(range(len(places)), key=places.__getitem__)
    if order != list(range(len(places))):
        if x.shape.size >= i.shape.size:
            return None
        shape = array_shape(x.shape.dtype, [x.shape.dims[d] for d in order])
        x = rw.make("transpose", shape, [x], dimensions=tuple(order))
    return rw.make("broadcast", i.shape, [x], dimensions=tuple(sorted(places)))


# move(broadcast(x)) == broadcast(x); x a scalar
@rule("reshape", "slice", "dynamic-slice", "reverse", "copy")
def _moved_scalar(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "broadcast" or inner.operands[0].shape.rank or not i.shape.is_array:
        return None
    return rw.make("broadcast", i.shape, inner.operands, dimensions=())


# {c, c, c, ...} == broadcast(c)
@rule("constant")
def _constant_of_equal_elements(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not i.shape.is_array or i.shape.size < 2 or i.literal.elided:
        return None
    value = splat(i)
    return None if value is None else rw.splat(i.shape, np.asarray(value))


# f(broadcast(x), broadcast(y)) == broadcast(f(x, y)); x and y scalars, f elementwise
@rule(*ELEMENTWISE)
def _compute_then_broadcast(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not i.shape.rank or i.backend_config:
        return None
    scalars = []
    for operand in i.operands:
        if operand.opcode == "broadcast":
            operand = operand.operands[0]
        if operand.shape.rank:
            return None
        scalars.append(operand)
    once = rw.make(i.opcode, array_shape(i.shape.dtype, ()), scalars, **i.attrs)
    return rw.make("broadcast", i.shape, [once], dimensions=())
