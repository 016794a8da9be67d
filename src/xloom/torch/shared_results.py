"""Results of a graph that lie in one memory, as views of one value do: what is written to one is seen in the others."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from xloom.hlo.instruction import Instruction
from xloom.torch.arrays import in_memory_of
from xloom.torch.dtypes import torch_dtype
from xloom.torch.graph_memory import order_in_memory, owner
from xloom.torch.strides import inverse


@dataclass(frozen=True)
class AliasedResult:
    """A result that lies in the memory of a value, of which there are others."""

    base: int
    """The number of the value."""
    view: torch.Tensor
    """Where the result lies in it: a tensor without memory."""

    def of(self, base: torch.Tensor, *, as_view: bool) -> torch.Tensor:
        """The result; `as_view` for autograd too, as if it was made where gradients are asked for."""
        view = self.view
        if not as_view:
            return in_memory_of(base, view.dtype, view.shape, view.stride(), int(view.storage_offset()))
        with torch.enable_grad():
            typed = base if base.dtype is view.dtype else base.view(-1).view(view.dtype)
            return typed.as_strided(view.shape, view.stride(), view.storage_offset())


@dataclass(frozen=True)
class ArgumentView:
    """A result that is a view of an argument. Where sizes are symbolic, AOTAutograd makes the user's by its strides."""

    argument: int
    node: Node
    of: Callable[[torch.Tensor], torch.Tensor]
    """The result, of the argument."""


def shared_results(results: Sequence[Any]) -> dict[Node, list[int]]:
    """The values that several results are views of, or one that leaves gaps; and the numbers of those results."""
    found: dict[Node, list[int]] = defaultdict(list)
    for number, result in enumerate(results):
        if isinstance(result, Node) and result not in results[:number]:
            found[owner(result)].append(number)
    return {
        base: numbers
        for base, numbers in found.items()
        if (len(numbers) > 1 or order_in_memory(results[numbers[0]]) is None)
        and base.op == "call_function"
        and order_in_memory(base) is not None
    }


def aliased_results(
    base: Node, own: Instruction, order: Sequence[int], number: int, results: Sequence[Node], value: Callable
) -> list[AliasedResult | None]:
    """Where each of `results` lies in the memory of `base`; None for those that are conjugated or negated as read."""
    dims = [own.shape.dims[k] for k in order]
    memory = torch.empty(dims, dtype=torch_dtype(own.shape.dtype), device="meta").permute(inverse(order))
    views = [replay(each, base, value)(memory) for each in results]
    return [None if view.is_conj() or view.is_neg() else AliasedResult(number, view) for view in views]


def replay(node: Node, base: Node, value: Callable[[Any], Any]) -> Callable[[torch.Tensor], Any]:
    """What makes of a tensor the view of it that a node is of `base`; `value` has numbers of the graph."""
    if node is base:
        return lambda memory: memory
    source, *rest = node.args
    target = node.target
    assert isinstance(source, Node) and callable(target)
    before, arguments, options = replay(source, base, value), value(rest), value(node.kwargs)
    if target is operator.getitem:
        return lambda memory: before(memory)[arguments[0]]
    return lambda memory: target(before(memory), *arguments, **options)
