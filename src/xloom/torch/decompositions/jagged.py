"""Nested tensors of a ragged dimension, put into padded ones and back: what their reductions and attention do.

`offsets` is an array of one more element than there are parts: where each begins among the values, and the last ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xloom.errors import LoweringError
from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten._jagged_to_padded_dense_forward.default)
def to_padded(
    values: Tensor, offsets: Sequence[Tensor], max_lengths: Sequence[int], padding_value: float = 0
) -> Tensor:
    """Values [n, ...] as parts [b, length, ...]: what is beyond the length goes, what is beyond a part is padding.

    Raises LoweringError for several ragged dimensions.
    """
    ends, length = _only(offsets), max_lengths[0]
    place = torch.arange(length, device=values.device)
    begin, end = ends[:-1].unsqueeze(1), ends[1:].unsqueeze(1)
    at = begin + place
    tail = values.shape[1:]
    inside = (at < end).reshape([*at.shape, *[1] * len(tail)])
    if not values.shape[0]:
        return torch.full([*at.shape, *tail], padding_value, dtype=values.dtype, device=values.device)
    taken = values.index_select(0, at.clamp(max=values.shape[0] - 1).reshape(-1)).reshape([*at.shape, *tail])
    return torch.where(inside, taken, padding_value)


@decomposes(aten._padded_dense_to_jagged_forward.default)
def to_jagged(dense: Tensor, offsets: Sequence[Tensor], total_L: int | None = None) -> Tensor:
    """Parts [b, length, ...] as values [n, ...], one after another.

    Raises LoweringError for several ragged dimensions.
    """
    ends = _only(offsets)
    count = int(ends[-1].item()) if total_L is None else total_L
    place = torch.arange(count, device=dense.device)
    part = torch.searchsorted(ends[1:], place, right=True)
    flat = part * dense.shape[1] + place - ends.index_select(0, part)
    return dense.flatten(0, 1).index_select(0, flat)


def _only(offsets: Sequence[Tensor]) -> Tensor:
    if len(offsets) != 1:
        hint = "PyTorch's own kernel for the CPU has one, too"
        raise LoweringError(f"a nested tensor of {len(offsets)} ragged dimensions", hint=hint)
    return offsets[0]
