"""How DTensor may cut `linear` and its gradients, which are operators of their own on this device.

torch knows it of the products that they are made of elsewhere; without these tables it gathers whole weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table, register_decomposition
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

_Cut = tuple[list[Placement | None], list[Placement | None]]
"""Of results and of arguments, along one dimension of a mesh."""
_BACKWARD = torch.ops.aten.linear_backward.default


def register() -> None:
    """Has DTensor ask the tables, once."""
    if _BACKWARD not in decomposition_table:
        register_decomposition(_BACKWARD)(_gradients)
        register_sharding(torch.ops.aten.linear.default)(_linear)
        register_sharding(_BACKWARD)(_linear_backward)


def _linear(x: Any, weight: Any, bias: Any = None) -> list[_Cut]:
    """y = x wᵀ + b."""
    last = x.ndim - 1
    whole, row, column, sums = Replicate(), Shard(0), Shard(1), Partial()
    cuts = [
        (whole, whole, whole, whole),
        (Shard(last), whole, row, row),
        (sums, Shard(last), column, sums),
        *((Shard(k), Shard(k), whole, whole) for k in range(last)),
    ]
    return [([y], [x, w, None if bias is None else b]) for y, x, w, b in cuts]


def _linear_backward(x: Any, gradient: Any, weight: Any, mask: Any) -> list[_Cut]:
    """dx = g w, dw = gᵀ x, db = the sum of g."""
    last = x.ndim - 1
    whole, row, column, sums = Replicate(), Shard(0), Shard(1), Partial()
    cuts = [
        ([whole, whole, whole], [whole, whole, whole]),
        ([sums, row, row], [whole, Shard(last), row]),
        ([Shard(last), column, whole], [Shard(last), whole, column]),
        *(([Shard(k), sums, sums], [Shard(k), Shard(k), whole]) for k in range(last)),
    ]
    return [(results, [*arguments, None]) for results, arguments in cuts]


def _gradients(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """By which DTensor finds shapes and dtypes of the results, all three."""
    rows = grad_output.reshape(-1, grad_output.shape[-1])
    return grad_output @ weight, rows.t() @ self.reshape(-1, self.shape[-1]), rows.sum(0)
