"""Two elements side by side that each iteration stores, as the parts of a complex number: one vector has both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xloom.llvm.masked_lanes import leading_lanes, masked_store
from xloom.llvm.types import I64
from xloom.llvm.vectorizer.address_distance import distance
from xloom.llvm.vectorizer.not_plain import NotPlain
from xloom.llvm.vectorizer.widening import bytes_of
from xloom.llvm.vectors import first_lanes, shuffled


def store_pairs(stores: Sequence[Any]) -> dict[int, Any]:
    """By identity of the later store of each pair, the earlier one; `stores` go two elements on in each iteration.

    Raises NotPlain if one has no other beside it.
    """
    pairs, waiting = {}, list(stores)
    while waiting:
        first = waiting.pop(0)
        nbytes = bytes_of(first.operands[0].type)
        beside = (s for s in waiting if s.operands[0].type == first.operands[0].type and _apart(first, s) == nbytes)
        second = next(beside, None)
        if second is None:
            raise NotPlain
        waiting.remove(second)
        pairs[id(second)] = first
    return pairs


def _apart(first: Any, second: Any) -> int | None:
    nbytes = distance(first.operands[1], second.operands[1])
    return None if nbytes is None else abs(nbytes)


def store_interleaved(
    b: ir.IRBuilder, values: Sequence[ir.Value], address: ir.Value, align: int, left: ir.Value | int | None
) -> None:
    """Stores the lanes of two vectors in turn; those of the first `left` iterations only, if that is not None."""
    lanes = values[0].type.count
    both = shuffled(b, values[0], [k // 2 + k % 2 * lanes for k in range(2 * lanes)], values[1])
    if left is None:
        b.store(both, address, align=align)
        return
    if isinstance(left, int):
        mask = first_lanes(2 * lanes, 2 * left)
    else:
        mask = leading_lanes(b, 2 * lanes, b.shl(left, I64(1)))
    masked_store(b, both, address, mask, align)
