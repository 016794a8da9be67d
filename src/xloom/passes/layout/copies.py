"""Operators that turn out to change nothing, and arrays without elements."""

from __future__ import annotations

import numpy as np

from xloom.hlo.module import Instruction
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


# x == {}; x an array without elements
@rule(*_PURE_MOVES)
def _empty(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i.shape.size or not i.shape.is_array:
        return None
    return rw.constant(i.shape, np.zeros((), i.shape.dtype.numpy))


# get-dimension-size(x, d) == x's size, unless that is dynamic (dynamic operands never get here)
@rule("get-dimension-size")
def _known_size(i: Instruction, rw: Rewriter) -> Instruction | None:
    return rw.constant(i.shape, i.operands[0].shape.dims[i["dimensions"][0]])


# sort(x) == x; one operand, at most one element along the dimension
@rule("sort")
def _nothing_to_sort(i: Instruction, rw: Rewriter) -> Instruction | None:
    if len(i.operands) != 1 or i.shape.dims[i["dimensions"][0]] > 1:
        return None
    return i.operands[0]
