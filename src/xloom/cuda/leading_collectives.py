"""Collectives along other dimensions than the first, as those of the first and kernels that move the elements."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.interpreter.collective import members_of
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class LeadingCollectives(Pass):
    """Makes all-gather and all-to-all of arrays move whole blocks, which lie one after another in memory."""

    name = "leading-collectives"

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# gather(x, d) == reshape(transpose(gather(reshape(x, [1, ...]), 0)))
@rule("all-gather")
def _all_gather(i: Instruction, rw: Rewriter) -> Instruction | None:
    d, (x, *others) = i["dimensions"][0], i.operands
    if not d or others:
        return None
    dtype, dims = x.shape.dtype, x.shape.dims
    count = i.shape.dims[d] // dims[d]
    row = rw.make("reshape", array_shape(dtype, (1, *dims)), [x])
    attributes = {**i.attrs, "dimensions": (0,)}
    gathered = rw.make("all-gather", array_shape(dtype, (count, *dims)), [row], **attributes)
    order = (*range(1, d + 1), 0, *range(d + 1, len(dims) + 1))
    moved = rw.make("transpose", array_shape(dtype, (*dims[:d], count, *dims[d:])), [gathered], dimensions=order)
    return rw.make("reshape", array_shape(dtype, i.shape.dims), [moved])


# exchange(x, d), in count blocks along d, the same way
@rule("all-to-all")
def _all_to_all(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, *others = i.operands
    if not i.attrs.get("dimensions") or not i["dimensions"][0] or others:
        return None
    d = i["dimensions"][0]
    dtype, dims = x.shape.dtype, x.shape.dims
    count = _members(i)
    if dims[d] % count:
        return None
    cut = (*dims[:d], count, dims[d] // count, *dims[d + 1 :])
    there = (d, *(k for k in range(len(cut)) if k != d))
    back = tuple(there.index(k) for k in range(len(cut)))
    leading = tuple(cut[k] for k in there)
    parts = rw.make("reshape", array_shape(dtype, cut), [x])
    front = rw.make("transpose", array_shape(dtype, leading), [parts], dimensions=there)
    exchanged = rw.make("all-to-all", array_shape(dtype, leading), [front], **{**i.attrs, "dimensions": (0,)})
    moved = rw.make("transpose", array_shape(dtype, cut), [exchanged], dimensions=back)
    return rw.make("reshape", array_shape(dtype, dims), [moved])


def _members(i: Instruction) -> int:
    assert i.parent is not None and i.parent.module is not None
    config = i.parent.module.config
    return len(members_of(i, (0, 0), config.replica_count, config.num_partitions))
