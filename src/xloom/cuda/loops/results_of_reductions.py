"""Maps of what reductions give: the reductions, which threads share, and what becomes of each result afterwards."""

from __future__ import annotations

from typing import NamedTuple

from xloom.codegen.loop_ir.nest import LoopBody, Store, reductions_of
from xloom.codegen.loop_ir.nodes import If, Node, Reduced, Reduction, indices_of, operands_of, walk


class ReducedStage(NamedTuple):
    """The stage as it would be if it stored the results as they are, and its reductions, all over the same loops."""

    plain: LoopBody
    reductions: list[Reduction]


def reduced_stage(stage: LoopBody) -> ReducedStage | None:
    """The reductions of which each store of a stage is made; None where that has other parts, or depends on guards."""
    stores = []
    for store in stage.stores:
        results = _results(store.node)
        if not results:
            return None
        stores += [Store(store.target, store.address, result) for result in results]
    plain = LoopBody(stage.vars, stores)
    reductions = reductions_of(plain)
    inside = walk([body for reduction in reductions for body in (*reduction.bodies, *reduction.elements)])
    return ReducedStage(plain, reductions) if reductions and not any(isinstance(n, Reduced) for n in inside) else None


def _results(root: Node) -> list[Reduced]:
    """What reductions give to a node; nothing where one of them may not be needed."""
    found: dict[int, Reduced] = {}
    stack, seen = [root], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Reduced):
            found[id(node)] = node
            continue
        if isinstance(node, If) or any(v.node is not None for index in indices_of(node) for v, _ in index.terms):
            return []
        stack.extend(operands_of(node))
    return list(found.values())
