"""Rounding to what a quantised type has, in floats: what models are trained with before they are quantised."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


def rounded_to_steps(x: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int) -> tuple[Tensor, Tensor]:
    """x at the nearest step of `scale` between two, and whether that is the nearest of all: what has a gradient."""
    count, inside = nearest_steps(x, scale, zero_point, low, high)
    return (count.to(scale.dtype) * scale).to(x.dtype), inside


def nearest_steps(x: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int) -> tuple[Tensor, Tensor]:
    """How many steps from 0 the nearest one between two is, and whether it is the nearest of all."""
    zero = zero_point.to(torch.float32)
    wide = x.to(wide_dtype(x))
    if zero_point.is_floating_point():
        step = (wide * scale.reciprocal() + zero).round()
    else:
        step = (wide * scale.to(torch.float32).reciprocal()).round() + zero
    kept = step.clamp(low, high)
    return kept - zero, step == kept


def shape_along(x: Tensor, axis: int) -> list[int]:
    """What a value for each place along a dimension is reshaped to, to meet x."""
    return [-1 if k == axis % x.dim() else 1 for k in range(x.dim())]


def wide_dtype(x: Tensor) -> torch.dtype:
    """What such elements are computed in."""
    return torch.promote_types(x.dtype, torch.float32)


@decomposes(aten.fake_quantize_per_tensor_affine_cachemask.default)
def per_tensor(x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    """One step for all elements."""
    step = torch.full((), scale, dtype=torch.float32, device=x.device)
    return rounded_to_steps(x, step, torch.full((), zero_point, device=x.device), quant_min, quant_max)


@decomposes(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def per_tensor_of_tensors(
    x: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """One step for all elements, which is known when the program runs; x as it is where that is not enabled."""
    step = scale.reshape(()).to(torch.float32)
    rounded, mask = rounded_to_steps(x, step, zero_point.reshape(()).to(torch.int32), quant_min, quant_max)
    enabled = fake_quant_enabled.reshape(()) != 0
    return torch.where(enabled, rounded, x), mask | ~enabled


@decomposes(aten.fake_quantize_per_channel_affine_cachemask.default)
def per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """A step for each place along a dimension."""
    along = shape_along(x, axis)
    return rounded_to_steps(x, scale.reshape(along).to(wide_dtype(x)), zero_point.reshape(along), quant_min, quant_max)
