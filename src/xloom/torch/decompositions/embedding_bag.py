"""Sums, means and maxima of bags of rows of a table, and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten._embedding_bag.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums (0), means (1) or maxima (2) of bags of rows; the bag of each index, their sizes, where maxima are."""
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count, width = starts.shape[0], indices.shape[0], weight.shape[1]
    begun = torch.zeros(count + 1, dtype=indices.dtype, device=indices.device)  # bags at the end are empty
    begun = begun.index_add(0, starts, torch.ones_like(starts, dtype=indices.dtype))
    bag = begun[:count].cumsum(0, dtype=indices.dtype) - 1
    rows = weight[indices]
    counted = (indices != padding_idx) if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)
    if padding_idx >= 0:
        sizes = torch.zeros(bags, dtype=indices.dtype, device=indices.device)
        sizes = sizes.index_add(0, bag, counted.to(indices.dtype))
    else:
        ends = torch.full((1,), count, dtype=offsets.dtype, device=offsets.device)
        sizes = torch.diff(starts, append=ends).to(indices.dtype)
    if mode == 2:
        wide = bag.unsqueeze(1).expand(count, width)
        lowest = torch.full((bags, width), float("-inf"), dtype=weight.dtype, device=weight.device)
        seen = torch.where(counted.unsqueeze(1), rows, float("-inf"))
        top = lowest.scatter_reduce(0, wide, seen, "amax")
        hit = (seen == top[bag]) & counted.unsqueeze(1)
        first = torch.where(hit, indices.unsqueeze(1).expand(count, width), -1)
        places = torch.full((bags, width), -1, dtype=indices.dtype, device=indices.device)
        places = places.scatter_reduce(0, wide, first, "amax")
        return torch.where(sizes.unsqueeze(1) > 0, top, 0.0), bag, sizes, torch.clamp(places, min=0)
    factor = counted.to(weight.dtype)
    if per_sample_weights is not None:
        factor = factor * per_sample_weights
    wide = torch.promote_types(weight.dtype, torch.float32)
    rows = rows.to(wide)
    if per_sample_weights is not None or padding_idx >= 0:
        rows = rows * factor.to(wide).unsqueeze(1)
    total = torch.zeros((bags, width), dtype=wide, device=weight.device).index_add(0, bag, rows)
    if mode == 1:
        total = total / torch.clamp(sizes, min=1).unsqueeze(1)
    return total.to(weight.dtype), bag, sizes, sizes.clone()


@decomposes(aten._embedding_bag_forward_only.default)
def embedding_bag_forward_only(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same."""
    return embedding_bag(*args, **kwargs)


@decomposes(aten._embedding_bag_per_sample_weights_backward.default)
def embedding_bag_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    """The gradient of the weights of rows in sums."""
    wide = torch.promote_types(grad.dtype, torch.float32)
    result = (grad[bag].to(wide) * weight[indices].to(wide)).sum(-1).to(grad.dtype)
    return torch.where(indices == padding_idx, 0.0, result) if padding_idx >= 0 else result


@decomposes(aten._embedding_bag_dense_backward.default)
def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    bag: Tensor,
    sizes: Tensor,
    places: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """The table's gradient."""
    own, grad = grad.dtype, grad.to(torch.promote_types(grad.dtype, torch.float32))
    table = torch.zeros((num_weights, grad.shape[1]), dtype=grad.dtype, device=grad.device)
    if mode == 2:
        filled = torch.where(sizes.unsqueeze(1) > 0, grad, 0.0)
        return table.scatter_add(0, places.to(torch.int64), filled).to(own)
    rows = grad[bag]
    if mode == 1:
        rows = rows / torch.clamp(sizes, min=1)[bag].unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        counts = torch.zeros(num_weights, dtype=grad.dtype, device=grad.device)
        counts = counts.index_add(0, indices, torch.ones_like(indices, dtype=grad.dtype))
        rows = rows / counts[indices].unsqueeze(1)
    if padding_idx >= 0:
        rows = torch.where((indices == padding_idx).unsqueeze(1), 0.0, rows)
    return table.index_add(0, indices, rows).to(own)


@decomposes(aten._embedding_bag_backward.default)
def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag: Tensor,
    sizes: Tensor,
    places: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """The table's gradient, dense."""
    arguments = (scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return embedding_bag_dense_backward(grad, indices, bag, sizes, places, num_weights, *arguments)
