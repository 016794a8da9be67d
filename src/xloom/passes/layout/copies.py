"""Operators that turn out to change nothing, and arrays without elements."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_PURE_MOVES = (
    "broadcast",
    "concatenate",
    "convert",
    "gather",
    "iota",
    "pad",
    "reshape",
    "reverse",
    "slice",
    "transpose",
)


# copy(x) == x, reshape(x) == x; when the shape and layout are x's
@rule("copy", "reshape")
def _to_own_shape(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if i.operands[0].shape == i.shape else None


# copy(copy(x)) == copy(x); within one memory space
@rule("copy")
def _copy_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "copy" or not i.shape.is_array:
        return None
    layouts = [s.layout for s in (i.shape, inner.shape, inner.operands[0].shape)]
    if len({layout.memory_space if layout else 0 for layout in layouts}) > 1:
        return None
    return rw.make("copy", i.shape, [inner.operands[0]])


# x == broadcast(0); x an array without elements (a constant's text would still show its outer braces)
@rule(*_PURE_MOVES)
def _empty(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i.shape.size or not i.shape.is_array or (i.opcode == "broadcast" and i.operands[0].opcode == "constant"):
        return None
    return rw.splat(i.shape, 0)


# sort(x) == x; one operand, at most one element along the dimension
@rule("sort")
def _nothing_to_sort(i: Instruction, rw: Rewriter) -> Instruction | None:
    if len(i.operands) != 1 or i.shape.dims[i["dimensions"][0]] > 1:
        return None
    return i.operands[0]
