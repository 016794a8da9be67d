"""Loops in HLO, written as functions of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph

Step = Callable[[Graph, Instruction, list[Instruction]], list[Instruction]]
Change = Callable[[Graph, list[Instruction]], list[Instruction]]


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
    k, end, *inner = _elements(body, parameter)
    results = step(body, k, inner)
    root = body.tuple(body.add(k, body.scalar(1, dt.s64)), end, *results)
    loop = g.while_(whole, body=body.builder.finish(root), condition=condition.builder.finish(more))
    return _elements(g, loop)[2:]


def while_any(
    g: Graph,
    left: Callable[[Graph, list[Instruction]], Instruction],
    change: Change,
    state: Sequence[Instruction],
    *,
    draws: bool = False,
) -> list[Instruction]:
    """The state after `change(graph, state)` as often as `left(graph, state)`, an array of pred, is true anywhere.

    With `draws`, `change` may ask for random numbers: the generator's state goes through the loop.
    """
    whole = g.tuple(*state, *([g.random_state()] if draws else []))
    condition = g.subgraph("left")
    undecided = left(condition, _elements(condition, condition.parameter(whole.shape))[: len(state)])
    undecided = condition.reduce_with(undecided, "or", False, range(undecided.shape.rank))
    body = g.subgraph("change", lambda: inner[-1])
    inner = _elements(body, body.parameter(whole.shape))
    results = change(body, inner[: len(state)])
    root = body.tuple(*results, *([body.random_state()] if draws else []))
    loop = g.while_(whole, body=body.builder.finish(root), condition=condition.builder.finish(undecided))
    results = _elements(g, loop)
    if draws:
        g.state = results.pop()
    return results


def _elements(g: Graph, whole: Instruction) -> list[Instruction]:
    return [g.get_tuple_element(whole, index=k) for k in range(len(whole.shape.elements))]
