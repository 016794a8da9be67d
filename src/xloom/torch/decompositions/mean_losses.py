"""Gradients of mean losses: torch divides by the number of elements on the host, also where it is 0."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._decomp import get_decompositions
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import statically_known_true

from xloom.torch.decompositions.registry import Decomposition, aten, decomposes


def _or_empty(rule: Decomposition) -> Decomposition:
    def gradient(grad_output: Tensor, x: Tensor, *rest: Any) -> Tensor:
        return x.clone() if statically_known_true(x.numel() == 0) else rule(grad_output, x, *rest)

    return gradient


def _register(*ops: OpOverload) -> None:
    for op, rule in get_decompositions(ops).items():
        assert isinstance(op, OpOverload)
        decomposes(op)(_or_empty(rule))


_register(aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default)
