"""Rounding to what a quantised type has, with steps for what has been seen so far."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from xloom.torch.decompositions.fake_quantization import per_channel, rounded_to_steps
from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten._fused_moving_avg_obs_fq_helper_functional.default)
def observed(
    x: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, ...]:
    """Steps for the extremes of what has been seen, in all or in each row; and those extremes."""
    if per_row_fake_quant and ch_axis != 0:
        raise RuntimeError("Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0")
    others = list(range(int(per_row_fake_quant), x.dim()))
    if per_row_fake_quant and running_min.numel() == 0:  # nothing seen yet, nor how many rows there are
        size = x.shape[0]
        running_min, running_max = running_min.new_full([size], inf), running_max.new_full([size], -inf)
        scale, zero_point = scale.new_ones([size]), zero_point.new_zeros([size])
    observes, quantises = (each.reshape(()) != 0 for each in (observer_on, fake_quant_on))
    lowest, highest = (
        torch.where(observes, _averaged(seen, found.to(seen.dtype), averaging_const), seen)
        for seen, found in ((running_min, x.amin(others)), (running_max, x.amax(others)))
    )
    step, place = _steps_between(lowest, highest, quant_min, quant_max, symmetric_quant)
    step = torch.where(quantises, step.to(scale.dtype), scale)
    place = torch.where(quantises, place.to(zero_point.dtype), zero_point)
    if per_row_fake_quant:
        rounded, mask = per_channel(x, step, place, 0, quant_min, quant_max)
    else:
        rounded, mask = rounded_to_steps(x, step.reshape(()), place.reshape(()), quant_min, quant_max)
    return torch.where(quantises, rounded, x), mask | ~quantises, lowest, highest, step, place


def _averaged(seen: Tensor, found: Tensor, rate: float) -> Tensor:
    """The moving average, which begins where something has been seen."""
    found = found.reshape(seen.shape)
    return torch.where(seen.isinf(), found, seen + rate * (found - seen))


_SMALLEST_STEP = 6.1e-5
"""torch takes no smaller one, so that products of two steps are no denormal numbers in f16."""


def _steps_between(
    lowest: Tensor, highest: Tensor, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[Tensor, Tensor]:
    """The step and the integer of 0 with which integers reach from one number to another; in f64, as torch has it."""
    low, high = lowest.to(torch.float64), highest.to(torch.float64)
    count = quant_max - quant_min
    around = (low < 0) & (high > 0) if symmetric else torch.zeros_like(low, dtype=torch.bool)
    least, most = -(count // 2 + 1), count // 2
    widest = torch.maximum((low / least).abs(), (high / most).abs())
    low = torch.where(around, widest * least, low).to(torch.float32).to(torch.float64).clamp(max=0)
    high = torch.where(around, widest * most, high).to(torch.float32).to(torch.float64).clamp(min=0)
    step = (high - low) / count
    narrow = step.to(torch.float32)
    step = torch.where((narrow == 0) | narrow.reciprocal().isinf(), 0.1, step)
    wider = torch.where(step < _SMALLEST_STEP, _SMALLEST_STEP / step, 1)
    low, high, step = low * wider, high * wider, step.clamp(min=_SMALLEST_STEP)
    from_low, from_high = quant_min - low / step, quant_max - high / step
    nearer = abs(quant_min) - (low / step).abs() < abs(quant_max) - (high / step).abs()
    zero = torch.where(around, (quant_min + quant_max) / 2, torch.where(nearer, from_low, from_high))
    return step, zero.round().clamp(quant_min, quant_max)
