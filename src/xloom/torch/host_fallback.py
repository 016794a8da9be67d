"""Operators without a lowering in a compiled graph: calls of torch's own kernels, where the user allows it.

Collectives are such calls without being asked: tensors of the host belong to torch's own process groups.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from xloom.calls.python_source import custom_call
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.torch.arrays import as_array, as_tensor
from xloom.torch.custom_calls import called, without_memory
from xloom.torch.lowering import Graph
from xloom.torch.metrics import METRICS

_numbers = itertools.count()


_WAIT = "_c10d_functional::wait_tensor"


def allowed(op: OpOverload) -> bool:
    """Whether it is a collective, or XLOOM_TORCH_FALLBACK=1."""
    return _is_collective(op) or os.environ.get("XLOOM_TORCH_FALLBACK") == "1"


def _is_collective(op: OpOverload) -> bool:
    return op.namespace == "_c10d_functional"


def call(g: Graph, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A custom call that runs `op` on the CPU. Raises LoweringError for one that changes its arguments."""
    if op._schema.name == _WAIT:  # its collective has waited
        return args[0]
    if op._schema.is_mutable:
        raise LoweringError(f"{op} changes its arguments, and has no lowering to HLO")
    leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
    waits = _is_collective(op)
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Instruction)]

    def run(tensors: Sequence[torch.Tensor]) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        positional, named = tree_unflatten(given, spec)
        with torch.no_grad():
            found = op(*positional, **named)
            return tree_map_only(torch.Tensor, torch.ops._c10d_functional.wait_tensor, found) if waits else found

    def on_host(out: Any, *arrays: Any) -> None:
        METRICS.fallbacks[str(op)] += 1
        results = run([as_tensor(array) for array in arrays])
        several = isinstance(out, tuple)
        for place, result in zip(out if several else (out,), results if several else (results,), strict=True):
            place[...] = as_array(result)

    operands = [leaves[k] for k in places]
    target = f"xloom.torch.{op}.{next(_numbers)}"
    custom_call(target)(on_host)
    results = run([without_memory(operand) for operand in operands])
    draws = torch.Tag.nondeterministic_seeded in op.tags
    return called(g, target, operands, results, custom_call_has_side_effect=draws or waits)
