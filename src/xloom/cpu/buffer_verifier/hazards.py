"""Loop nests that write over arrays that they read: which element is read before, and which after it is written.

Iterations of the outer loops run on several threads, in no order. Within one, stages run one after another, and in each
of them iterations run in any order, with all loads of one before its stores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, Store
from xloom.codegen.loop_ir.nodes import Condition, If, Load, Node, Reduced, indices_of, operands_of

ENUMERATED = 1 << 16
"""Elements that are looked at one by one where index expressions alone do not tell."""


@dataclass(frozen=True)
class LoadUse:
    """An element that a stage reads in each iteration where `guards` hold, and in each of the reductions around it."""

    stage: int
    value: BufferValue
    address: Affine
    reductions: tuple[Var, ...] = ()
    guards: tuple[Condition, ...] = ()


def uses_of(nest: LoopNest) -> list[LoadUse]:
    """Every load, once for each stage and reductions in which it is."""
    found: dict[LoadUse, None] = {}
    for number, stage in enumerate(nest.stages):
        for store in stage.stores:
            seen: set[tuple[int, tuple[Var, ...], tuple[Condition, ...]]] = set()
            inside = [v.node for v, _ in store.address.terms if v.node is not None]
            stack: list[tuple[Node, tuple[Var, ...], tuple[Condition, ...]]]
            stack = [(node, (), ()) for node in (store.node, *inside)]
            while stack:
                node, reductions, guards = stack.pop()
                if (id(node), reductions, guards) in seen:
                    continue
                seen.add((id(node), reductions, guards))
                if isinstance(node, Load):
                    found[LoadUse(number, node.source, node.address, reductions, guards)] = None
                if isinstance(node, Reduced):
                    within = (*reductions, *node.reduction.vars)
                    stack += [(n, reductions, guards) for n in node.reduction.inits]
                    stack += [(n, within, guards) for n in (*node.reduction.elements, *node.reduction.bodies)]
                elif isinstance(node, If):
                    stack += [
                        (node.then, reductions, (*guards, *node.conditions)),
                        (node.otherwise, reductions, guards),
                    ]
                else:
                    stack += [(n, reductions, guards) for n in operands_of(node)]
                where = [v.node for i in indices_of(node) for v, _ in i.terms if v.node is not None]
                stack += [(n, reductions, guards) for n in where]
    return list(found)


def stores_of(nest: LoopNest) -> Iterator[tuple[int, Store]]:
    """Every store, with its stage's number."""
    for number, stage in enumerate(nest.stages):
        for store in stage.stores:
            yield number, store


def reads_before(nest: LoopNest, use: LoadUse, stage: int, store: Store) -> bool:
    """True when each element is read for the last time before the store writes it: it may lie in the same memory."""
    if use.stage > stage:
        return False
    if use.stage == stage:
        if use.address == store.address and not _changes_in(use.address, use.reductions):
            return True  # the same iteration, which computes all that it stores first
        if _extent(nest, nest.stages[stage]) == 1:
            return True  # the only iteration
    elif _stays_in_row(nest, use, store):
        return True
    return _enumerated(nest, use, stage, store, before=True)


def reads_after(nest: LoopNest, use: LoadUse, stage: int, store: Store) -> bool:
    """True when each element that is read was written before, in the same iteration of the outer loops."""
    if use.stage <= stage:
        return False
    return _stays_in_row(nest, use, store) or _enumerated(nest, use, stage, store, before=False)


def covers(nest: LoopNest, target: BufferValue, size: int) -> bool:
    """True when the stores of an array are as many as it has elements."""
    outer = math.prod(v.size for v in nest.outer)
    made = (outer * math.prod(v.size for v in nest.stages[n].vars) for n, s in stores_of(nest) if s.target == target)
    return sum(made) == size


def _changes_in(address: Affine, loops: Sequence[Var]) -> bool:
    return any(address.factor(v) for v in loops)


def _stays_in_row(nest: LoopNest, use: LoadUse, store: Store) -> bool:
    """True when an iteration of the outer loops reads and writes in a row of its own."""
    outer = set(nest.outer)
    if any(use.address.factor(v) != store.address.factor(v) for v in outer):
        return False
    read, written = (
        Affine(a.const, tuple(t for t in a.terms if t[0] not in outer)) for a in (use.address, store.address)
    )
    ends = [
        (low + gap.const, high - 1 + gap.const) for where, low, high in use.guards if (gap := read - where).is_constant
    ]
    low, high = max([read.low, *(low for low, _ in ends)]), min([read.high, *(high for _, high in ends)])
    low, high = min(low, written.low), max(high, written.high)
    # rows do not overlap: from one to the next it is further than a row is long, in each loop
    width = high - low + 1
    for var in sorted(outer, key=lambda v: abs(store.address.factor(v))):
        factor = abs(store.address.factor(var))
        if factor < width:
            return False
        width += factor * (var.size - 1)
    return True


def _enumerated(nest: LoopNest, use: LoadUse, stage: int, store: Store, *, before: bool) -> bool:
    """Looks at each element; False where there are too many, or where an index is one that the program computes."""
    reading, writing = nest.stages[use.stage], nest.stages[stage]
    loops = [*nest.outer, *reading.vars, *use.reductions]
    if any(v.node is not None for a in (use.address, store.address) for v, _ in a.terms):
        return False
    if math.prod(v.size for v in loops) > ENUMERATED or _extent(nest, writing) > ENUMERATED:
        return False
    written, writers = _elements(store.address, [*nest.outer, *writing.vars]), _extent(nest, writing)
    read, readers = _elements(use.address, loops), np.arange(math.prod(v.size for v in loops))
    per_iteration = math.prod(v.size for v in use.reductions)
    size = 1 + max(int(written.max(initial=-1)), int(read.max(initial=-1)))
    writer = np.full(size, -1)
    numbers = np.arange(writers)
    if use.stage == stage:
        readers = readers // per_iteration
    else:  # only the outer loops matter
        numbers = numbers // math.prod(v.size for v in writing.vars)
        readers = readers // (per_iteration * math.prod(v.size for v in reading.vars))
    inside = written >= 0
    writer[written[inside]] = numbers[inside]
    inside = read >= 0  # what a guard keeps from being read
    found = writer[read[inside]]
    same = found == readers[inside]
    return bool(np.all(same | (found < 0) if before else same))


def _extent(nest: LoopNest, stage: LoopBody) -> int:
    return math.prod(v.size for v in (*nest.outer, *stage.vars))


def _elements(address: Affine, loops: Sequence[Var]) -> np.ndarray:
    """The index in each iteration, the last loop fastest."""
    total = np.full((), address.const, np.int64)
    for var in loops:
        total = total[..., None] + address.factor(var) * np.arange(var.size, dtype=np.int64)
    return total.reshape(-1)
