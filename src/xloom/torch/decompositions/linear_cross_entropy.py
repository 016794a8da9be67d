"""The cross entropy of a linear layer, which torch computes by chunks of rows: here at once."""

from __future__ import annotations

import torch
import torch.nn.modules.linear_cross_entropy  # defines the operators
from torch import Tensor

from xloom.torch.decompositions.registry import decomposes

torch_nn = torch.ops.torch_nn


@decomposes(torch_nn._linear_cross_entropy_batch_chunked.default)
def linear_cross_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: torch.dtype,
    allow_retain_graph: bool,
    compute_input_grad: bool,
    compute_linear_weight_grad: bool,
    compute_linear_bias_grad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss over all rows, and its gradients, which are empty where they are not asked for."""
    wide = torch.promote_types(x.dtype, torch.float32)
    log_probs = _log_probabilities(x, linear_weight, linear_bias)
    shares, total = _shares(log_probs, target, weight, ignore_index, label_smoothing)
    loss = -(shares * log_probs).sum()
    slope = log_probs.exp() * shares.sum(1, keepdim=True) - shares
    if reduction == "mean":
        loss, slope = loss / total, slope / total

    def empty(like: Tensor) -> Tensor:
        return torch.empty((0,) * like.dim(), dtype=like.dtype, device=like.device)

    bias = x.new_empty((0,)) if linear_bias is None else linear_bias
    return (
        loss.to(x.dtype),
        (slope @ linear_weight.to(wide)).to(x.dtype) if compute_input_grad else empty(x),
        (slope.mT @ x.to(wide)).to(x.dtype) if compute_linear_weight_grad else empty(linear_weight),
        slope.sum(0).to(x.dtype) if compute_linear_bias_grad else empty(bias),
    )


@decomposes(torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default)
def linear_cross_entropy_of_rows(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: torch.dtype,
) -> Tensor:
    """The loss of each row."""
    log_probs = _log_probabilities(x, linear_weight, linear_bias)
    shares, _ = _shares(log_probs, target, weight, ignore_index, 0.0)
    return -(shares * log_probs).sum(1).to(x.dtype)


def _log_probabilities(x: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    scores = x.to(wide) @ linear_weight.to(wide).mT
    return torch.log_softmax(scores if linear_bias is None else scores + linear_bias.to(wide), 1)


def _shares(
    log_probs: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    """How much each class's logarithm counts in each row's loss; and what a mean is taken over."""
    classes = max(log_probs.shape[1], 1)
    each = torch.ones_like(log_probs[0]) if weight is None else weight.to(log_probs.dtype)
    if target.is_floating_point():  # probabilities of the classes
        given = target.to(log_probs.dtype) * (1 - smoothing) + smoothing / classes
        return given * each, torch.full((), log_probs.shape[0], dtype=log_probs.dtype, device=target.device)
    counted = (target != ignore_index).unsqueeze(1)
    is_target = (torch.arange(log_probs.shape[1], device=target.device) == target.unsqueeze(1)) & counted
    own = torch.where(is_target, each, 0.0)
    return own * (1 - smoothing) + torch.where(counted, each * (smoothing / classes), 0.0), own.sum()
