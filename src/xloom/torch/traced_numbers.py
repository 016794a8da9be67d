"""Sizes, strides and places in memory as a graph was traced with them, and what they are when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.fx import Node

Symbol = Any
"""One of sympy's."""
Known = Callable[[Any], int | None]
"""What a number is, or a node that is one; None where that is not known."""


def evaluated(number: Any, values: Mapping[Symbol, int]) -> int:
    """A size as a number."""
    return int(number.node.expr.xreplace(values)) if isinstance(number, torch.SymInt) else int(number)


def hinted(number: Any) -> int:
    """A size as it was when the graph was traced."""
    return number.node.hint if isinstance(number, torch.SymInt) else number


def written(number: Any) -> int | None:
    """A number that the graph itself has."""
    return number if isinstance(number, int) else None


def known_for(given: Iterable[tuple[Node, Any]]) -> Known:
    """What numbers are for these arguments of a graph."""
    values: dict[Symbol, int] = {}
    for node, argument in given:
        traced: Any = node.meta.get("val")
        of_tensors = isinstance(traced, torch.Tensor) and isinstance(argument, torch.Tensor)
        for own, number in zip(traced.shape, argument.shape, strict=True) if of_tensors else [(traced, argument)]:
            if isinstance(own, torch.SymInt) and not own.node.is_nested_int() and own.node.expr.is_Symbol:
                values[own.node.expr] = int(number)

    def known(number: Any) -> int | None:
        traced = number.meta.get("val") if isinstance(number, Node) else number
        if not isinstance(traced, torch.SymInt):
            return traced if isinstance(traced, int) else None
        return evaluated(traced, values) if traced.node.expr.free_symbols <= values.keys() else None

    return known
