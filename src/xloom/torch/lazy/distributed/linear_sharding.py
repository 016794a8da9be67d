"""How DTensor may cut `linear` and its gradients, which are operators of their own on this device.

torch knows it of the products that they are made of elsewhere; without these tables it gathers whole weights.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

_Cut = tuple[list[Placement | None], list[Placement | None]]
"""Of results and of arguments, along one dimension of a mesh."""
_BACKWARD = torch.ops.aten.linear_backward.default


@lru_cache(maxsize=1)
def register() -> None:
    """Has DTensor ask the tables, once."""
    register_sharding(torch.ops.aten.linear.default)(_linear)
    register_sharding(_BACKWARD)(_linear_backward)
    # what it has found it finds again by the mask too, by which some gradients are None
    DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[_BACKWARD] = RuntimeSchemaInfo(3, needs_pytree=True)


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
