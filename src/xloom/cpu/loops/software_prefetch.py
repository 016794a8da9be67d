"""What the next row is made of, fetched while this one is computed.

A nest that goes over each row several times waits for memory as it reads it first, and leaves memory idle as it
computes with what the caches then hold. So its costliest passes have the caches fetch the next row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, reductions_of, stage_cost
from xloom.codegen.loop_ir.nodes import Load
from xloom.llvm.cache_lines import CACHED, LINE, fetch
from xloom.llvm.loop import PLAIN, loop
from xloom.llvm.target import Target
from xloom.llvm.types import I8, I64

CHUNK = 512
"""Iterations between which lines are fetched: those of as many elements, which arrive before as many more are done."""
_SHORTEST = 1024
"""Bytes of a row in which a processor does not see the next one by itself."""


class PrefetchedRow(NamedTuple):
    """Adjacent elements of an array, from `start` on."""

    source: BufferValue
    nbytes: int
    """Of an element."""
    start: Affine
    length: int

    def fetch(self, b: ir.IRBuilder, pointer: ir.Value, begin: ir.Value, count: int) -> None:
        """Has `count` elements brought into the caches, `begin` after the start; they may be outside of the array."""
        first = b.gep(pointer, [b.mul(begin, I64(self.nbytes))], source_etype=I8)
        with loop(b, 0, count * self.nbytes, LINE, name="ahead", hints=PLAIN) as at:
            fetch(b, b.gep(first, [at], source_etype=I8))


def rows_to_prefetch(
    nest: LoopNest, row: Var, target: Target, nbytes_of: Callable[[BufferValue], int]
) -> dict[int, list[PrefetchedRow]]:
    """What each stage, by number, is to fetch of arrays that no cache holds; `row` is the loop right around the stages.

    `nbytes_of` says how large an array is.
    """
    rows = _next_rows(nest, row, target, nbytes_of)
    # the first stage is the one that waits, and those that write results wait for memory too
    costs = {k: stage_cost(s) for k, s in enumerate(nest.stages) if k and not _writes(nest, s)}
    busy = sorted((k for k in costs if 2 * costs[k] > max(costs.values())), key=lambda k: (-costs[k], k))
    shares: dict[int, list[PrefetchedRow]] = {}
    for number, following in enumerate(rows):
        if busy:
            shares.setdefault(busy[number % len(busy)], []).append(following)
    return shares


def _writes(nest: LoopNest, stage: LoopBody) -> bool:
    return not reductions_of(stage) and any(s.target not in nest.private for s in stage.stores)


def _next_rows(
    nest: LoopNest, row: Var, target: Target, nbytes_of: Callable[[BufferValue], int]
) -> list[PrefetchedRow]:
    found: dict[BufferValue, PrefetchedRow] = {}
    for stage in nest.stages:
        for node in stage.nodes:
            if isinstance(node, Load) and node.source not in nest.private:
                following = _next_row(node, nest.outer, row)
                if following is not None and nbytes_of(node.source) > CACHED * target.caches.last:
                    found.setdefault(node.source, following)
    return list(found.values())


def _next_row(load: Load, outer: Sequence[Var], row: Var) -> PrefetchedRow | None:
    """The elements that the next iteration loads, where they are many side by side."""
    address, nbytes = load.address, load.dtype.bytes
    stride = address.factor(row)
    if not stride:
        return None
    inside = sorted(((f, v) for v, f in address.terms if v not in outer), key=lambda term: term[0])
    length = math.prod(var.size for _, var in inside)
    for k, (factor, var) in enumerate(inside):
        if var.node is not None or factor != math.prod(v.size for _, v in inside[:k]):
            return None
    if length * nbytes < _SHORTEST:
        return None
    around = tuple(t for t in address.terms if t[0] in outer)
    return PrefetchedRow(load.source, nbytes, Affine(address.const + stride, around), length)
