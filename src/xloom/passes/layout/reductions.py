"""reduce over dimensions of size 1, as masks of gathers with one index have them, and over all dimensions."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES
from xloom.passes.match import is_all_ones, is_zero
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


# reduce(x, c, d, f) == f(broadcast(c), reshape(x)); d are dimensions of size 1, f an elementwise operator; reshape(x)
# where f is `and` and c true, or f is `or` and c false
@rule("reduce")
def _of_one_element(i: Instruction, rw: Rewriter) -> Instruction | None:
    root = i["to_apply"].root
    if len(i.operands) != 2 or i.shape.is_dynamic or i.operands[0].shape.is_dynamic or not i.shape.size:
        return None
    x, start = i.operands
    if x.shape.size != i.shape.size or not OPCODES[root.opcode].elementwise:
        return None
    if any(o.opcode != "parameter" or o.shape.dtype is not x.shape.dtype for o in root.operands):
        return None
    value = rw.make("reshape", i.shape, [x])
    numbers = [o["parameter_number"] for o in root.operands]
    changes_nothing = is_all_ones(start) if root.opcode == "and" else root.opcode == "or" and is_zero(start)
    if changes_nothing and sorted(numbers) == [0, 1]:
        return value
    values = [rw.make("broadcast", i.shape, [start], dimensions=()), value]
    return rw.make(root.opcode, i.shape, [values[k] for k in numbers], **root.attrs)


# reduce(reshape(x), c, all dimensions, f) == reduce(x, c, all dimensions, f)
@rule("reduce")
def _of_all(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, *start = i.operands
    if len(start) != 1 or x.opcode != "reshape" or x.shape.is_dynamic or len(i["dimensions"]) != x.shape.rank:
        return None
    (source,) = x.operands
    if source.shape.is_dynamic or not source.shape.rank:
        return None
    attrs = {**i.attrs, "dimensions": tuple(range(source.shape.rank))}
    return rw.make("reduce", i.shape, [source, *start], **attrs)
