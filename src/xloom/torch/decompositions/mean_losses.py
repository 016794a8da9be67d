"""Gradients of mean losses: torch divides by the number of elements on the host, also where it is 0."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from xloom.torch.decompositions.registry import aten, decomposes


def _decompose(op: OpOverload) -> None:
    @decomposes(op)
    def gradient(grad_output: Tensor, x: Tensor, *rest: Any) -> Tensor:
        from torch._decomp import get_decompositions
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        if statically_known_true(x.numel() == 0):
            return x.clone()
        return get_decompositions([op])[op](grad_output, x, *rest)


for _op in (aten.mse_loss_backward, aten.smooth_l1_loss_backward, aten.huber_loss_backward):
    _decompose(_op.default)
