"""Gradients of losses that are sums of hinges."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes

_NONE, _MEAN = 0, 1


@decomposes(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(
    grad_output: Tensor,
    x: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    """The gradient of the hinges between the target and every other class, to the power 1 or 2."""
    rows = torch.atleast_2d(x)
    places = target.reshape(-1, 1)
    off = margin - rows.gather(1, places) + rows
    slope = torch.ones_like(off) if p == 1 else 2 * off
    if weight is not None:
        slope = slope * weight[places]
    classes = torch.arange(rows.shape[1], device=x.device)
    slope = torch.where((off > 0) & (classes != places), slope / rows.shape[1], 0.0)
    slope = torch.where(classes == places, -slope.sum(1, keepdim=True), slope)
    if reduction == _MEAN:
        slope = slope / rows.shape[0]
    grad = grad_output.reshape(-1, 1) if reduction == _NONE else grad_output
    return (slope * grad).reshape(x.shape)
