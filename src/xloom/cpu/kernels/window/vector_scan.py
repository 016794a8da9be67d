"""Prefix scans with an associative operator, a vector of elements at a time."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.window.associative_operator import LANES, AssociativeOperator, mask
from xloom.llvm.loop import allocate, loop
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I64


def scan(
    b: ir.IRBuilder,
    operator: AssociativeOperator,
    pointers: list[ir.Value],
    start: ir.Value,
    size: int,
    forward: bool,
) -> None:
    """Scans `size` elements from `start` on, from either end; pointers are operand, initial value and output."""
    source, initial, target = pointers
    carry = allocate(b, operator.type)
    b.store(operator.splat(b, initial, I64(0)), carry)
    vectors = size // LANES
    with loop(b, 0, vectors, name="vector") as n:
        offset = times(b, n, LANES) if forward else b.sub(I64(size - LANES), times(b, n, LANES))
        index = plus(b, start, offset)
        x = _within(b, operator, operator.load(b, source, index), forward)
        before = b.load(carry, typ=operator.type)
        operator.store(b, target, index, operator.apply(b, before, x))
        # only this one operation waits for the vector before
        b.store(operator.apply(b, before, operator.lane(b, x, LANES - 1 if forward else 0)), carry)
    with loop(b, vectors * LANES, size) as n:
        index = plus(b, start, n if forward else b.sub(I64(size - 1), n))
        x = operator.splat(b, source, index)
        state = operator.apply(b, b.load(carry, typ=operator.type), x)
        b.store(state, carry)
        operator.store_first(b, target, index, state)


def _within(b: ir.IRBuilder, operator: AssociativeOperator, x: ir.Value, forward: bool) -> ir.Value:
    """The prefix scan of one vector."""
    step = 1
    while step < LANES:
        lanes = [i - step if forward else i + step for i in range(LANES)]
        moved = b.shuffle_vector(x, operator.identity_value, mask([i if 0 <= i < LANES else LANES for i in lanes]))
        x = operator.apply(b, moved, x)
        step *= 2
    return x
