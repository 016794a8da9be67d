"""Loops that copy arrays, or make them 0, as calls of the C library: LLVM takes far longer to make them of loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.memory_copy import copy_part, fill
from xloom.llvm.types import I64
from xloom.llvm.vectorizer.loop_facts import LoopFacts
from xloom.llvm.vectorizer.memory_roots import roots_of
from xloom.llvm.vectorizer.widening import arguments_of, bytes_of

Clone = Callable[[ir.IRBuilder, Any, Sequence[ir.Value]], ir.Value]


def is_copied(facts: LoopFacts) -> bool:
    """True of a loop that only moves, element by element, what it does not write to, or makes arrays 0."""
    loop = facts.loop
    if loop.step != 1 or not facts.only_moves:
        return False
    stores = list(_stores(facts))
    written = {roots_of(store.operands[1]) for store in stores}
    values = [facts.seen(store.operands[0]) for store in stores]
    return all(
        _is_zero(v) if isinstance(v, ir.Constant) else facts.apart(v) == 1 and roots_of(v.operands[0]) not in written
        for v in values
    )


def call_instead(facts: LoopFacts, clone: Clone) -> None:
    """Puts calls in the place of such a loop; `clone` makes an instruction anew, of other operands."""
    loop = facts.loop
    loop.before.instructions.pop()
    loop.before.terminator = None
    b = FoldingBuilder(loop.before)
    first: dict[int, ir.Value] = {id(loop.variable): loop.begin}
    """By identity: what values are in the first iteration, and addresses for what they are loaded from."""

    def at_first(operand: ir.Value) -> ir.Value:
        operand = facts.seen(operand)
        return first.get(id(operand), operand)

    stores = {id(store) for store in _stores(facts)}
    for i in loop.instructions:
        if isinstance(i, kinds.LoadInstr) and facts.stride(i) is None:
            first[id(i)] = at_first(i.operands[0])
        elif facts.stride(i) is not None and not isinstance(i, kinds.StoreInstr):
            if i is facts.seen(i):
                first[id(i)] = clone(b, i, [at_first(o) for o in arguments_of(i)])
        elif id(i) in stores:
            value, target = facts.seen(i.operands[0]), at_first(i.operands[1])
            nbytes = b.mul(_count(b, facts), I64(bytes_of(value.type)))
            if isinstance(value, ir.Constant):
                fill(b, target, 0, nbytes)
            else:
                copy_part(b, target, first[id(value)], nbytes)
    b.branch(loop.done)
    for old in (loop.head, *loop.body):
        loop.head.function.blocks.remove(old)


def _stores(facts: LoopFacts) -> Iterator[Any]:
    """Those of elements, not of variables."""
    variables = facts.variables
    return (i for i in facts.loop.instructions if isinstance(i, kinds.StoreInstr) and id(i) not in variables.stores)


def _is_zero(value: ir.Constant) -> bool:
    number = value.constant
    return isinstance(number, int | float) and number == 0 and math.copysign(1, number) > 0


def _count(b: ir.IRBuilder, facts: LoopFacts) -> ir.Value:
    loop = facts.loop
    if loop.count is not None:
        return I64(loop.count)
    count = b.sub(loop.end, loop.begin, flags=["nsw"])
    return b.select(b.icmp_signed(">", count, I64(0)), count, I64(0))
