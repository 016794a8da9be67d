"""What is computed of weights alone, kept until one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import WeakSet, WeakValueDictionary

import torch

from xloom.torch.frozen.memory_sample import MemorySample

_ALIKE: WeakValueDictionary[str, WeakSet[KeptValues]] = WeakValueDictionary()

_version = attrgetter("_version")

Compute = Callable[[list[torch.Tensor]], list[torch.Tensor]]


class _Kept(NamedTuple):
    state: list[Any]
    weights: list[torch.Tensor]
    """Aliases, so that no other tensor's memory is where theirs was."""
    values: list[torch.Tensor]
    sample: MemorySample


class KeptValues:
    """`compute` of weights, once for each state of them.

    A state is each weight's memory and torch's count of what was written there; where torch does not count, as in
    inference tensors, values are not kept. It does not count writes through `weight.data` or NumPy either: a sample of
    the memory tells of those that go over whole weights. What is `alike` computes the same: one's values are those of
    all.
    """

    def __init__(self, compute: Compute, alike: str):
        self._compute = compute
        self._kept: _Kept | None = None
        self._others = _ALIKE.setdefault(alike, WeakSet())
        self._others.add(self)

    def __call__(self, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        """The values of these weights."""
        state = _state(weights)
        kept = self._kept
        if kept is not None and state is not None and kept.state == state and kept.sample.is_as_it_was():
            return kept.values
        if state is not None:  # programs of other shapes have the same weights
            for other in list(self._others):
                kept = other._kept
                if kept is not None and kept.state == state and kept.sample.is_as_it_was():
                    self._kept = kept
                    return kept.values
        values = self._compute([w if w.is_contiguous() else w.contiguous() for w in weights])
        aliases = [w.detach() for w in weights]
        self._kept = None if state is None else _Kept(state, aliases, values, MemorySample(aliases))
        return values


def _state(weights: Sequence[torch.Tensor]) -> list[Any] | None:
    """Of hundreds of weights, before each call: functions of C go over them."""
    try:
        found: list[Any] = [*map(_version, weights)]
    except RuntimeError:  # inference tensors have none
        return None
    found += map(torch.Tensor.data_ptr, weights)
    are_contiguous = [*map(torch.Tensor.is_contiguous, weights)]
    found += are_contiguous
    if not all(are_contiguous):
        found += map(torch.Tensor.stride, weights)
    return found
