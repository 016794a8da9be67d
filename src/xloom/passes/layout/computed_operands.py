"""Operands of products that are computed of broadcasts: the order of their dimensions is free."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.match import is_elementwise
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_MOST = 16
"""Instructions that are made anew."""
_SIDES = "lhs", "rhs"


# dot(x, f(broadcast(y, d))) == dot(x, f(broadcast(y, p**-1[d]))) over p**-1 of what it is over; p puts what is summed
# in the order of x's memory, and last, or first where y is adjacent along a dimension that is kept
@rule("dot")
def _order_of_memory(i: Instruction, rw: Rewriter) -> Instruction | None:
    for k, side in enumerate(_SIDES):
        leaves = _leaves(i.operands[k])
        if not leaves:
            continue
        p = _order(i, k, leaves)
        if p is None or p == list(range(len(p))):
            continue
        place = {old: new for new, old in enumerate(p)}
        operands, attrs = list(i.operands), dict(i.attrs)
        operands[k] = _reordered(i.operands[k], p, rw)
        for kind in ("batch_dims", "contracting_dims"):
            attrs[f"{side}_{kind}"] = tuple(place[d] for d in i[f"{side}_{kind}"])
        return rw.make("dot", i.shape, operands, **attrs)
    return None


def _leaves(x: Instruction) -> list[Instruction]:
    """Broadcasts of arrays that a computation of one reader reads; none where it reads anything else."""
    found, todo, seen = [], [x], 0
    while todo:
        i = todo.pop()
        seen += 1
        if seen > _MOST or i.shape.is_dynamic or i.shape.dims != x.shape.dims:
            return []
        if i.opcode == "broadcast":
            if i.operands[0].shape.rank:
                found.append(i)
        elif is_elementwise(i) and len(i.users) == 1:
            todo += i.operands
        else:
            return []
    return found if x.opcode != "broadcast" else []


def _order(i: Instruction, k: int, leaves: Sequence[Instruction]) -> list[int] | None:
    """In which order the dimensions of operand `k` should lie; None where its parts do not agree."""
    side, other = _SIDES[k], _SIDES[1 - k]
    adjacent = {leaf["dimensions"][-1] for leaf in leaves}
    batch, summed = list(i[f"{side}_batch_dims"]), list(i[f"{side}_contracting_dims"])
    if len(adjacent) != 1 or not summed:
        return None
    pairs = sorted(zip(i[f"{other}_contracting_dims"], summed, strict=True))
    summed = [d for _, d in pairs]
    own = [d for d in range(i.operands[k].shape.rank) if d not in {*batch, *summed}]
    (last,) = adjacent
    if own and own[-1] == last:
        return [*batch, *summed, *own]
    return [*batch, *own, *summed] if summed[-1] == last else None


def _reordered(x: Instruction, p: Sequence[int], rw: Rewriter) -> Instruction:
    """The computation with its dimensions in another order."""
    shape = array_shape(x.shape.dtype, [x.shape.dims[d] for d in p])
    if x.opcode == "broadcast":
        place = {old: new for new, old in enumerate(p)}
        return rw.make("broadcast", shape, x.operands, dimensions=tuple(place[d] for d in x["dimensions"]))
    return rw.make(x.opcode, shape, [_reordered(o, p, rw) for o in x.operands], **x.attrs)
