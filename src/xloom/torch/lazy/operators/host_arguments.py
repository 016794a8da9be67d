"""Operators whose tensors of lengths or indices decide shapes: those are read, and then they are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.torch.lazy.recording.table import handles

aten = torch.ops.aten


def _with_lists(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, places: Sequence[int]) -> Any:
    return op(*[each.flatten().tolist() if k in places else each for k, each in enumerate(args)], **(kwargs or {}))


@handles("aten.ctc_loss.Tensor")
def reduced_ctc_loss(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """The loss and its reduction, whose lengths may be on the host, as they usually are."""
    return _with_lists(aten.ctc_loss.IntList, args, kwargs, (2, 3))


@handles("aten._ctc_loss.Tensor")
def ctc_loss(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """The losses, of inputs and targets of lengths that tensors have."""
    return _with_lists(aten._ctc_loss.default, args, kwargs, (2, 3))


@handles("aten._ctc_loss_backward.Tensor")
def ctc_loss_backward(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Its gradient."""
    return _with_lists(aten._ctc_loss_backward.default, args, kwargs, (3, 4))


def tensor_split(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    """Parts of x that end at places; or so many parts."""
    given = places.tolist()
    return aten.tensor_split.sections(x, given, dim) if places.dim() == 0 else aten.tensor_split.indices(x, given, dim)
