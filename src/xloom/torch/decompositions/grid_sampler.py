"""Sampling of images and volumes at coordinates that a grid gives, and its gradients: sums over neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_CUBIC_A = -0.75  # Keys' parameter, as torch has it


@dataclass
class _Neighbour:
    """Along one axis: where it is, how much it weighs, and how that changes with the grid."""

    place: Tensor
    weight: Tensor
    slope: Tensor


@decomposes(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """x [n, c, sizes] at grid [n, places, rank], whose last dimension counts axes from the last, from -1 to 1."""
    lines = x.flatten(2).to(_wide(x))
    result = torch.zeros((), dtype=lines.dtype, device=x.device)
    for place, inside, weights, _ in _neighbours(x, grid, interpolation_mode, padding_mode, align_corners):
        weight = torch.where(inside, weights, 0.0)
        result = result + lines.gather(2, _each_channel(place, x)) * weight.unsqueeze(1)
    return result.to(x.dtype).reshape(*x.shape[:2], *grid.shape[1:-1])


@decomposes(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def grid_sampler_backward(
    grad_output: Tensor,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor]:
    """The gradients of x, if asked for, and of the grid."""
    lines = x.flatten(2).to(_wide(x))
    grad = grad_output.flatten(2).to(lines.dtype)
    of_lines = torch.zeros_like(lines)
    of_grid = torch.zeros((*grad.shape[::2], grid.shape[-1]), dtype=lines.dtype, device=x.device)
    for place, inside, weights, slopes in _neighbours(x, grid, interpolation_mode, padding_mode, align_corners):
        where = _each_channel(place, x)
        if output_mask[0]:
            of_lines = of_lines.scatter_add(2, where, grad * torch.where(inside, weights, 0.0).unsqueeze(1))
        if interpolation_mode == _NEAREST:  # which does not change with the grid
            continue
        along = torch.where(inside, (grad * lines.gather(2, where)).sum(1), 0.0)
        of_grid = of_grid + along.unsqueeze(-1) * torch.stack(slopes, -1)
    of_x = of_lines.to(x.dtype).reshape(x.shape) if output_mask[0] else None
    return of_x, of_grid.to(grid.dtype).reshape(grid.shape)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _each_channel(place: Tensor, x: Tensor) -> Tensor:
    return place.unsqueeze(1).expand(-1, x.shape[1], -1)


def _neighbours(
    x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool
) -> Iterator[tuple[Tensor, Tensor, Tensor, list[Tensor]]]:
    """Of every place: a neighbour's number in its image, whether it is in it, its weight, and the slopes of that."""
    sizes = x.shape[2:]
    coordinates = grid.to(_wide(x)).flatten(1, -2).unbind(-1)
    axes = [_along_axis(c, size, mode, padding, aligned) for c, size in zip(coordinates, reversed(sizes), strict=True)]
    for chosen in product(*axes):
        number = torch.zeros_like(chosen[0].place)
        inside = torch.ones_like(number, dtype=torch.bool)
        for neighbour, size in zip(reversed(chosen), sizes, strict=True):
            number = number * size + neighbour.place.clamp(0, size - 1)
            inside = inside & (neighbour.place >= 0) & (neighbour.place < size)
        weight = torch.ones_like(chosen[0].weight)
        slopes = [torch.ones_like(weight)] * len(chosen)
        for k, neighbour in enumerate(chosen):
            weight = weight * neighbour.weight
            slopes = [s * (neighbour.slope if j == k else neighbour.weight) for j, s in enumerate(slopes)]
        yield number, inside, weight, slopes


def _along_axis(x: Tensor, size: int, mode: int, padding: int, aligned: bool) -> list[_Neighbour]:
    scale = (size - 1) / 2 if aligned else size / 2
    place = (x + 1) * scale if aligned else ((x + 1) * size - 1) / 2
    if mode == _CUBIC:
        first = place.floor()
        return [
            _Neighbour(_padded(first + k, size, padding, aligned)[0].to(torch.int64), weight, slope * scale)
            for k, (weight, slope) in zip(range(-1, 3), _cubic(place - first), strict=True)
        ]
    place, slope = _padded(place, size, padding, aligned)
    slope = slope * scale
    if mode == _NEAREST:
        return [_Neighbour(place.round().to(torch.int64), torch.ones_like(place), torch.zeros_like(place))]
    assert mode == _LINEAR
    first = place.floor()
    number = first.to(torch.int64)
    return [_Neighbour(number, 1 - (place - first), -slope), _Neighbour(number + 1, place - first, slope)]


def _padded(place: Tensor, size: int, padding: int, aligned: bool) -> tuple[Tensor, Tensor]:
    """Where a place outside of an image is taken to be, and the slope of that."""
    slope = torch.ones_like(place)
    if padding == _ZEROS:
        return place, slope
    if padding == _REFLECTION:
        low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(place), torch.zeros_like(place)
        far = (place - low).abs()
        odd = torch.fmod((far / span).floor(), 2) == 1
        rest = torch.fmod(far, span)
        slope = torch.where((place < low) ^ odd, -slope, slope)
        place = torch.where(odd, span - rest, rest) + low
    else:
        assert padding == _BORDER
    inner = (place > 0) & (place < size - 1)
    return place.clamp(0, size - 1), torch.where(inner, slope, 0.0)


def _cubic(t: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Weights of the four neighbours of a place that is t after the second, and their slopes."""

    def near(d: Tensor) -> tuple[Tensor, Tensor]:
        a = _CUBIC_A
        return ((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d

    def far(d: Tensor) -> tuple[Tensor, Tensor]:
        a = _CUBIC_A
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, (3 * a * d - 10 * a) * d + 8 * a

    (w0, s0), (w1, s1), (w2, s2), (w3, s3) = far(t + 1), near(t), near(1 - t), far(2 - t)
    return [(w0, s0), (w1, s1), (w2, -s2), (w3, -s3)]
