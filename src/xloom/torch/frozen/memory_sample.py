"""A few words of weights' memory, which tell of writes that torch does not count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

_EACH = 4
"""Words of a weight: of all weights, hundreds, some of which change where a model does."""


class _Span:
    """All memory from one address to another, of which only words that are there are looked at."""

    def __init__(self, first: int, words: int):
        self.__array_interface__ = {"version": 3, "typestr": "<u4", "shape": (words,), "data": (first, True)}


class MemorySample:
    """What some words of these tensors' memory were; for as long as the tensors have that memory."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        found = [_addresses(t) for t in tensors if t.numel()]
        addresses = np.concatenate(found or [np.zeros(0, np.int64)]) & ~3  # allocations begin and end with whole words
        first = int(addresses.min(initial=0 if not found else int(addresses[0])))
        words = (int(addresses.max(initial=first)) - first) // 4 + 1
        self._memory = np.asarray(_Span(first, words if found else 0))
        self._places = (addresses - first) // 4
        self._values = self._memory.take(self._places).tobytes()

    def is_as_it_was(self) -> bool:
        """Whether no word has changed."""
        return self._memory.take(self._places).tobytes() == self._values


def _addresses(tensor: torch.Tensor) -> np.ndarray:
    """Where some of a tensor's elements are, the first and the last among them."""
    flat = np.linspace(0, tensor.numel() - 1, min(_EACH, tensor.numel())).astype(np.int64)
    indices = np.unravel_index(flat, tuple(tensor.shape)) if tensor.dim() else ()
    offsets = sum((i * s for i, s in zip(indices, tensor.stride(), strict=True)), np.zeros(len(flat), np.int64))
    return tensor.data_ptr() + offsets * tensor.itemsize
