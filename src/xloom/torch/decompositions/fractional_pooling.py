"""Maxima of windows that begin at pseudo-random offsets, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.fractional_max_pool2d.default)
def fractional_max_pool2d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """The greatest of each window of a plane and where it is. The samples are the last axis's first."""
    return _pooled(x, kernel_size, output_size, random_samples.flip(-1))


@decomposes(aten.fractional_max_pool3d.default)
def fractional_max_pool3d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """The greatest of each window of a volume and where it is."""
    return _pooled(x, kernel_size, output_size, random_samples)


def _pooled(x: Tensor, kernel: Sequence[int], out: Sequence[int], samples: Tensor) -> tuple[Tensor, Tensor]:
    rank = len(out)
    dims = [*x.shape[:-rank], *out]
    if 0 in dims:
        return x.new_empty(dims), x.new_empty(dims, dtype=torch.int64)
    sizes = x.shape[-rank:]
    planes = x.reshape(-1, samples.shape[1], *sizes)
    # the number of each window's each element in its plane: [n, c, out..., kernel...]
    number = torch.zeros((1,) * (2 + 2 * rank), dtype=torch.int64, device=x.device)
    for k in range(rank):
        start = _starts(samples[..., k], sizes[k], out[k], kernel[k])
        place = start.unsqueeze(-1) + torch.arange(kernel[k], device=x.device)
        shape = [*samples.shape[:2], *[1] * (2 * rank)]
        shape[2 + k], shape[2 + rank + k] = out[k], kernel[k]
        number = number * sizes[k] + place.reshape(shape)
    number = number.flatten(2 + rank)
    found = planes.flatten(2).gather(2, number.flatten(2)).reshape(number.shape)
    greatest, at = found.max(-1)
    indices = number.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    return greatest.reshape(dims), indices.reshape(dims)


def _starts(sample: Tensor, size: int, out: int, kernel: int) -> Tensor:
    """Where windows begin along an axis; the last one ends with it. Rounded step by step, as places depend on it."""
    last = torch.full((*sample.shape, 1), size - kernel, dtype=torch.int64, device=sample.device)
    if out == 1:
        return last
    step = torch.full((), size - kernel, dtype=sample.dtype) / (out - 1)
    step = step.to(sample.device)
    steps = torch.arange(out - 1, device=sample.device).to(sample.dtype)
    starts = ((steps + sample.unsqueeze(-1)) * step).to(torch.int64) - (sample * step).to(torch.int64).unsqueeze(-1)
    return torch.cat([starts, last], -1)


@decomposes(aten.fractional_max_pool2d_backward.default, aten.fractional_max_pool3d_backward.default)
def fractional_max_pool_backward(
    grad_output: Tensor, x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], indices: Tensor
) -> Tensor:
    """Each gradient added where its maximum was."""
    first = x.dim() - len(output_size)
    wide = torch.promote_types(x.dtype, torch.float32)
    zeros = torch.zeros(x.shape, dtype=wide, device=x.device).flatten(first)
    total = zeros.scatter_add(first, indices.flatten(first), grad_output.flatten(first).to(wide))
    return total.to(x.dtype).reshape(x.shape)
