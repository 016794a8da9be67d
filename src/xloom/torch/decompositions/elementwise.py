"""Operators of single elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.ldexp.Tensor)
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x 2^other."""
    return x * torch.pow(2.0, other)


@decomposes(aten.dequantize.self)
def dequantize(x: Tensor) -> Tensor:
    """Tensors that are not quantized in float32."""
    return x.to(torch.float32)


@decomposes(aten._efficientzerotensor.default)
def efficientzerotensor(size: Sequence[int], **options: Any) -> Tensor:
    """Zeros."""
    return torch.zeros(size, **options)


@decomposes(aten.rrelu_with_noise_functional.default)
def rrelu_with_noise(
    x: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """x, multiplied where it is not positive by a random slope, or by their mean."""
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise
    slopes = torch.where(x > 0, torch.ones_like(x), torch.rand_like(x) * (upper - lower) + lower)
    return x * slopes, slopes


@decomposes(aten.rrelu_with_noise_backward.default)
def rrelu_with_noise_backward(
    grad: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, self_is_result: bool
) -> Tensor:
    """The gradient times the slopes that were drawn, or their mean."""
    if training and upper - lower > 1e-6:
        return grad * noise
    return torch.where(x > 0, grad, grad * ((lower + upper) / 2))
