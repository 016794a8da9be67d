"""Reductions of runs along a dimension, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.segment_reduce.default)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reductions of runs of elements along a dimension; those of empty runs are what the reduction starts from."""
    ends = _segment_ends(lengths, offsets)
    identity_value = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}[reduce]
    start = identity_value if initial is None else initial
    segment, counts = _segments(data, ends, axis)
    dims = [*data.shape[:axis], ends.shape[axis] + 1, *data.shape[axis + 1 :]]
    how = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}[reduce]
    wide = segment.reshape([*segment.shape, *[1] * (data.dim() - axis - 1)]).expand(data.shape)
    base = torch.full(dims, start, dtype=data.dtype, device=data.device)
    result = base.scatter_reduce(axis, wide, data, how).narrow(axis, 0, dims[axis] - 1)
    if reduce != "mean":
        return result
    counts = counts.reshape([*counts.shape, *[1] * (data.dim() - axis - 1)])
    empty = torch.full_like(result, float("nan") if initial is None else initial)
    return torch.where(counts > 0, result / torch.clamp(counts, min=1), empty)


def _segment_ends(lengths: Tensor | None, offsets: Tensor | None) -> Tensor:
    if lengths is not None:
        return torch.cumsum(lengths, -1)
    assert offsets is not None
    return offsets[..., 1:]


def _segments(data: Tensor, ends: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The run that each place is in (one more than the last for none), and how long runs are."""
    place = torch.arange(data.shape[axis], device=data.device)
    segment = (place.unsqueeze(-1) >= ends.unsqueeze(-2)).sum(-1)
    first = torch.zeros_like(ends[..., :1])
    return segment, torch.diff(ends, dim=-1, prepend=first)


@decomposes(aten._segment_reduce_backward.default)
def segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """The gradient of such reductions."""
    segment, counts = _segments(data, _segment_ends(lengths, offsets), axis)
    tail = [1] * (data.dim() - axis - 1)
    counts = counts.reshape([*counts.shape, *tail])

    def spread(x: Tensor) -> Tensor:
        room = torch.zeros_like(x.narrow(axis, 0, 1))
        wide = segment.reshape([*segment.shape, *tail]).expand(data.shape)
        return torch.cat([x, room], axis).gather(axis, wide)

    if reduce == "sum":
        return spread(grad)
    if reduce == "mean":
        return spread(grad / torch.clamp(counts, min=1))
    if reduce == "prod":
        return spread(grad * output) / data
    hit = (data == spread(output)) | torch.isnan(data)
    ties = torch.zeros_like(output)
    room = torch.zeros_like(output.narrow(axis, 0, 1))
    wide = segment.reshape([*segment.shape, *tail]).expand(data.shape)
    ties = torch.cat([ties, room], axis).scatter_add(axis, wide, hit.to(data.dtype)).narrow(axis, 0, output.shape[axis])
    return torch.where(hit, spread(grad / torch.clamp(ties, min=1)), torch.zeros_like(data))
