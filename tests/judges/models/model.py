"""A model with random weights, and what it is called with."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree

_SHARES_DROPPED = (
    "drop",
    "drop_path",
    "drop_prob",
    "drop_rate",
    "dropout",
    "dropout_prob",
    "dropout_rate",
    "layerdrop",
)


class Model(NamedTuple):
    """A module and its arguments, on the host and of float32 unless moved or made of another type."""

    module: nn.Module
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = MappingProxyType({})

    def results(self, call: Any) -> list[torch.Tensor]:
        """The floating-point tensors of what `call` returns, in order."""
        return floats(call(*self.arguments, **self.keywords))

    def moved(self, device: str) -> Model:
        """The same on another device."""
        move: Any = lambda value: value.to(device) if isinstance(value, torch.Tensor) else value  # noqa: E731
        return Model(self.module.to(device), *_pytree.tree_map(move, (self.arguments, dict(self.keywords))))

    def of(self, dtype: torch.dtype) -> Model:
        """A copy whose parameters and arguments of float32 are of that type."""

        def convert(value: Any) -> Any:
            return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value

        arguments = _pytree.tree_map(convert, (self.arguments, dict(self.keywords)))
        return Model(deepcopy(self.module).to(dtype), *arguments)


def floats(output: Any) -> list[torch.Tensor]:
    """The floating-point tensors in what a model returns: tuples, dicts and its library's records of either."""
    leaves = _pytree.tree_leaves(output.to_tuple() if hasattr(output, "to_tuple") else output)
    inner = [[leaf] if isinstance(leaf, torch.Tensor) else floats(leaf) for leaf in leaves if not _plain(leaf)]
    return [tensor for tensors in inner for tensor in tensors if tensor.is_floating_point()]


def _plain(leaf: Any) -> bool:
    return not isinstance(leaf, torch.Tensor) and not hasattr(leaf, "to_tuple")


def without_dropout(module: nn.Module) -> None:
    """Nothing is dropped at random while training, so that two runs can be compared."""
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        owners = [part, part.config] if hasattr(part, "config") else [part]
        for owner in owners:
            for name in [n for n in vars(owner) if n.endswith(_SHARES_DROPPED)]:
                if isinstance(getattr(owner, name), float):
                    setattr(owner, name, 0.0)
