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
    views = [_replayed(each, base, memory, value) for each in results]
    return [None if view.is_conj() or view.is_neg() else AliasedResult(number, view) for view in views]


def _replayed(node: Node, base: Node, memory: torch.Tensor, value: Callable[[Any], Any]) -> Any:
    if node is base:
        return memory
    source, *rest = node.args
    assert isinstance(source, Node)
    assert callable(node.target)
    made = _replayed(source, base, memory, value)
    return made[rest[0]] if node.target is operator.getitem else node.target(made, *value(rest), **value(node.kwargs))
