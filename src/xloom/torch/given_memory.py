"""Arguments that a graph gives another tensor's memory, as `x.data = y` does: that is done when the program has run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

Run = Callable[[Sequence[Any]], list[Any]]
_SETS = torch.ops.aten.set_.source_Tensor
_WRITES = torch.ops.aten.copy_.default


def values_first(graph: GraphModule) -> list[int]:
    """Lets the graph return what its arguments are given, before its results, rather than give it; their numbers."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    (output,) = graph.graph.find_nodes(op="output")
    sets = [node for node in graph.graph.find_nodes(op="call_function", target=_SETS) if node.args[0] in placeholders]
    if not sets:
        return []
    written = {node.args[1]: node.args[0] for node in graph.graph.find_nodes(op="call_function", target=_WRITES)}
    results, given = list(output.args[0]), []  # type: ignore[arg-type]
    for node in sets:
        argument, value = node.args
        results = [argument if each is node else each for each in results]
        given.append(written.get(value, value))  # the memory of the argument that has this value
        node.replace_all_uses_with(value, lambda user: user is not output)
    output.args = ((*given, *results),)
    numbers = [placeholders.index(node.args[0]) for node in sets]
    for node in sets:
        graph.graph.erase_node(node)
    graph.recompile()
    return numbers


def giving(run: Run, numbers: Sequence[int]) -> Run:
    """What runs such a graph, for the arguments of these numbers."""

    def given(arguments: Sequence[Any]) -> list[Any]:
        results = run(arguments)
        values = [each.detach() for each in results[: len(numbers)]]  # arguments as they were, where they swap
        with torch.no_grad():
            for number, value in zip(numbers, values, strict=True):
                arguments[number].set_(value)
        return results[len(numbers) :]

    return given
