"""Operators that move elements to indices which values give."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradients where the mask is true, in order, then zeros."""
    count = 1
    for size in sizes:
        count *= size
    chosen = mask.expand_as(grad).reshape(-1)
    place = torch.where(chosen, torch.cumsum(chosen, 0) - 1, count)
    filled = torch.zeros(count + 1, dtype=grad.dtype, device=grad.device)
    place = torch.clamp(place, max=count)
    return filled.index_put((place,), grad.reshape(-1), accumulate=True)[:count].reshape(list(sizes))


@decomposes(aten.nonzero_static.default)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of the first so many elements that are not zero; then rows of fill_value."""
    chosen = (x != 0).reshape(-1)
    if x.dim() == 0:
        return torch.zeros((size, 0), dtype=torch.int64, device=x.device)
    place = torch.where(chosen, torch.clamp(torch.cumsum(chosen, 0) - 1, max=size), size)
    columns = []
    for dim, length in enumerate(x.shape):
        steps = torch.arange(length, device=x.device).reshape([-1 if k == dim else 1 for k in range(x.dim())])
        empty = torch.full((size + 1,), fill_value, dtype=torch.int64, device=x.device)
        columns.append(empty.index_put((place,), steps.expand(x.shape).reshape(-1))[:size])
    return torch.stack(columns, 1)


def _replicated(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    """Each padded place's gradient goes to the edge that it repeats."""
    for k in range(len(padding) // 2):
        dim = x.dim() - 1 - k
        size = x.shape[dim]
        places = torch.clamp(torch.arange(grad.shape[dim], device=grad.device) - padding[2 * k], 0, size - 1)
        dims = list(grad.shape)
        dims[dim] = size
        grad = torch.zeros(dims, dtype=grad.dtype, device=grad.device).index_add(dim, places, grad)
    return grad


for _rank in (1, 2, 3):
    decomposes(getattr(aten, f"replication_pad{_rank}d_backward").default)(_replicated)


@decomposes(aten.repeat_interleave.Tensor)
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Each place so often as its number says, if it is known how many that are."""
    if output_size is None:
        return NotImplemented
    places = torch.arange(output_size, device=repeats.device)
    return torch.searchsorted(repeats.cumsum(0), places, right=True).to(repeats.dtype)
