"""Operators without a lowering in a compiled graph: calls of torch's own kernels, where the user allows it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

from xloom.calls.python_source import custom_call
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.torch.arrays import as_array, as_tensor
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.lowering import Graph
from xloom.torch.metrics import METRICS

_numbers = itertools.count()


def allowed() -> bool:
    """Whether XLOOM_TORCH_FALLBACK=1."""
    return os.environ.get("XLOOM_TORCH_FALLBACK") == "1"


def call(g: Graph, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A custom call that runs `op` on the CPU. Raises LoweringError for one that changes its arguments."""
    if op._schema.is_mutable:
        raise LoweringError(f"{op} changes its arguments, and has no lowering to HLO")
    leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Instruction)]

    def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        positional, named = tree_unflatten(given, spec)
        with torch.no_grad():
            results = op(*positional, **named)
        return [results] if isinstance(results, torch.Tensor) else list(results)

    def on_host(out: Any, *arrays: Any) -> None:
        METRICS.fallbacks[str(op)] += 1
        results = run([as_tensor(array) for array in arrays])
        for target, result in zip(out if isinstance(out, tuple) else (out,), results, strict=True):
            target[...] = as_array(result)

    operands = [leaves[k] for k in places]
    kinds = [(x.shape.dims, torch_dtype(x.shape.dtype)) for x in operands]
    shapes = [
        array_shape(hlo_dtype(r.dtype), tuple(r.shape))
        for r in run([torch.empty(dims, dtype=dtype, device="meta") for dims, dtype in kinds])
    ]
    target = f"xloom.torch.{op}.{next(_numbers)}"
    custom_call(target)(on_host)
    draws = torch.Tag.nondeterministic_seeded in op.tags
    several = len(op._schema.returns) > 1
    shape = tuple_shape(shapes) if several else shapes[0]
    found = g.custom_call(target, operands, shape, custom_call_has_side_effect=draws)
    return [g.get_tuple_element(found, index=k) for k in range(len(shapes))] if several else found
