"""Counts by intervals, of numbers and of points."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of equal intervals."""
    x = x.reshape(-1)
    low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    if min == max and x.numel():
        low, high = torch.amin(x), torch.amax(x)
        same = low == high
        low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    place = torch.clamp(((x - low) * bins / (high - low)).to(torch.int64), 0, bins - 1)
    inside = ((x >= low) & (x <= high)).to(x.dtype)
    return torch.zeros(bins, dtype=x.dtype, device=x.device).index_add(0, place, inside)


@decomposes(aten.histogram.bins_tensor)
def histogram(x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False) -> tuple[Tensor, Tensor]:
    """How many elements are between each two edges, and the edges."""
    return _counts(x.reshape(-1, 1), [bins], weight, density), bins


@decomposes(aten.histogram.bin_ct)
def histogram_of_equal(
    x: Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many elements are in each of equal intervals, and their edges."""
    (edges,) = histogramdd_bin_edges(x.reshape(-1, 1), [bins], range=range)
    return _counts(x.reshape(-1, 1), [edges], weight, density), edges


@decomposes(aten._histogramdd_bin_edges.default)
def histogramdd_bin_edges(
    x: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:
    """The edges of equal intervals in each dimension of points: over the range, or from the least to the greatest."""
    edges = []
    for k, (column, count) in enumerate(zip(x.reshape(-1, x.shape[-1]).unbind(1), bins, strict=True)):
        if range is not None:
            low, high = (torch.full((), v, dtype=x.dtype, device=x.device) for v in range[2 * k : 2 * k + 2])
        elif x.numel():
            low, high = torch.amin(column), torch.amax(column)
        else:
            low, high = (torch.full((), v, dtype=x.dtype, device=x.device) for v in (0.0, 1.0))
        same = low == high
        low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
        edges.append(torch.linspace(low, high, count + 1, dtype=x.dtype, device=x.device))
    return edges


@decomposes(aten._histogramdd_from_bin_cts.default)
def histogramdd_of_equal(
    x: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """How many points are in each cell of a grid of equal ones."""
    return _counts(x, histogramdd_bin_edges(x, bins, range=range), weight, density)


@decomposes(aten._histogramdd_from_bin_tensors.default)
def histogramdd(x: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False) -> Tensor:
    """How many points are in each cell between edges."""
    return _counts(x, bins, weight, density)


def _counts(x: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """The weight of the points in each cell; a cell has its lower edges, the last one its upper edge too."""
    points = x.reshape(-1, x.shape[-1])
    sizes = [edge.numel() - 1 for edge in edges]
    number = torch.zeros(points.shape[0], dtype=torch.int64, device=x.device)
    inside = torch.ones_like(number, dtype=torch.bool)
    for column, edge, size in zip(points.unbind(1), edges, sizes, strict=True):
        place = torch.searchsorted(edge, column.contiguous(), right=True) - 1
        number = number * size + torch.clamp(place, 0, size - 1)
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
    heavy = torch.ones(points.shape[0], dtype=x.dtype, device=x.device) if weight is None else weight.reshape(-1)
    count = 1
    for size in sizes:
        count *= size
    zeros = torch.zeros(count, dtype=x.dtype, device=x.device)
    counts = zeros.index_add(0, number, torch.where(inside, heavy, 0.0)).reshape(sizes)
    if not density:
        return counts
    counts = counts / counts.sum()
    for k, edge in enumerate(edges):
        counts = counts / torch.diff(edge).reshape([-1 if j == k else 1 for j, _ in enumerate(sizes)])
    return counts
