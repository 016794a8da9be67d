"""Rounding to what a quantised type has, with steps that are learnt."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.fake_quantization import (
    nearest_steps,
    per_channel,
    rounded_to_steps,
    shape_along,
    wide_dtype,
)
from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten._fake_quantize_learnable_per_tensor_affine.default)
def learnt_per_tensor(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    """One step for all elements, which is learnt as the integer of 0 is."""
    zero = _first(zero_point).round().clamp(quant_min, quant_max).to(torch.int32)
    return rounded_to_steps(x, _first(scale), zero, quant_min, quant_max)[0]


@decomposes(aten._fake_quantize_learnable_per_tensor_affine_backward.default)
def learnt_per_tensor_backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the elements, the step and the integer of 0, which torch rounds in its own way here."""
    zero = (_first(zero_point) + 0.5).clamp(quant_min, quant_max).to(torch.int32)
    of_x, of_step, of_zero = _learnt(grad, x, _first(scale), zero, quant_min, quant_max, grad_factor)
    return of_x, of_step.sum().reshape(1), of_zero.sum().reshape(1)


@decomposes(aten._fake_quantize_learnable_per_channel_affine.default)
def learnt_per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    """A step for each place along a dimension, which is learnt as the integers of 0 are."""
    zero = zero_point.round().clamp(quant_min, quant_max).to(torch.int32)
    return per_channel(x, scale, zero, axis, quant_min, quant_max)[0]


@decomposes(aten._fake_quantize_learnable_per_channel_affine_backward.default)
def learnt_per_channel_backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the elements, and at each place those of the step and the integer of 0."""
    along = shape_along(x, axis)
    others = [k for k in range(x.dim()) if along[k] == 1]
    zero = zero_point.round().clamp(quant_min, quant_max).to(torch.int32).reshape(along)
    of_x, *rest = _learnt(grad, x, scale.reshape(along), zero, quant_min, quant_max, grad_factor)
    of_step, of_zero = (each.sum(others) if others else each for each in rest)
    return of_x, of_step, of_zero


def _first(x: Tensor) -> Tensor:
    return x.reshape(-1)[0].to(torch.float32)


def _learnt(
    grad: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What each element adds to the gradients of itself, of its step and of its integer of 0."""
    x, dtype, grad = x.to(wide_dtype(x)), grad.dtype, grad.to(wide_dtype(x))
    count, inside = nearest_steps(x, scale, zero_point, low, high)
    of_step = torch.where(inside, (count * scale - x) * scale.reciprocal(), count) * grad * factor
    return torch.where(inside, grad, 0).to(dtype), of_step, torch.where(inside, 0, -grad * scale * factor)
