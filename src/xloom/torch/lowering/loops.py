"""Loops in HLO, written as functions of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph

Step = Callable[[Graph, Instruction, list[Instruction]], list[Instruction]]


def repeated(
    g: Graph, count: int | Instruction, step: Step, state: Sequence[Instruction], *, start: int = 0
) -> list[Instruction]:
    """The state after `step(graph, k, state)` for each k from `start` to below `start + count`."""
    first = g.scalar(start, dt.s64)
    last = g.add(g.scalar(count, dt.s64), first)
    whole = g.tuple(first, last, *state)
    condition = g.subgraph("more")
    parameter = condition.parameter(whole.shape)
    more = condition.compare(
        condition.get_tuple_element(parameter, index=0),
        condition.get_tuple_element(parameter, index=1),
        direction="LT",
    )
    body = g.subgraph("step")
    parameter = body.parameter(whole.shape)
    k, end, *inner = (body.get_tuple_element(parameter, index=j) for j in range(len(state) + 2))
    results = step(body, k, list(inner))
    root = body.tuple(body.add(k, body.scalar(1, dt.s64)), end, *results)
    loop = g.while_(whole, body=body.builder.finish(root), condition=condition.builder.finish(more))
    return [g.get_tuple_element(loop, index=j + 2) for j in range(len(state))]
