"""Operators without a lowering in a compiled graph, which are calls of kernels of the CPU inside the program.

So are those of packages and of `torch.library`, as under other backends of torch.compile, and collectives: tensors of
the host belong to torch's own process groups. ATen's are where the user allows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from xloom.calls.python_source import custom_call
from xloom.calls.torch_routines import PREFIX
from xloom.environment import TORCH_FALLBACK
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.torch.arrays import as_array, as_tensor
from xloom.torch.custom_calls import called, without_memory
from xloom.torch.lowering import Graph
from xloom.torch.lowering.registry import has_lowering
from xloom.torch.metrics import METRICS
from xloom.torch.strides import dense_order, inverse

_numbers = itertools.count()

_WAIT = "_c10d_functional::wait_tensor"
_OF_TORCH = ("aten", "prims")
_CHANGING = (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2)
"""What calls an operator that changes its arguments on copies of them, and gives the copies too."""
_KERNELS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


def allowed(op: OpOverload) -> bool:
    """Whether it is a collective, or XLOOM_TORCH_FALLBACK=1."""
    return _is_collective(op) or TORCH_FALLBACK.text == "1"


def is_host_call(target: Any) -> bool:
    """Whether a graph's operator is computed by a kernel of the CPU: it has one, and no lowering."""
    if target in _CHANGING:
        return True
    return isinstance(target, OpOverload) and not has_lowering(target) and (allowed(target) or _is_of_others(target))


def _is_of_others(op: OpOverload) -> bool:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return op.namespace not in _OF_TORCH and any(has_kernel(op.name(), key) for key in _KERNELS)


def _is_collective(op: OpOverload) -> bool:
    return op.namespace == "_c10d_functional"


def call(g: Graph, target: Any, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A custom call that runs a node's `target` on the CPU, on tensors that lie in memory as torch has traced them.

    Raises LoweringError for an operator of ATen that changes its arguments, and for results that are no tensors.
    """
    if isinstance(target, OpOverload):
        if target._schema.name == _WAIT:  # its collective has waited
            return args[0]
        if target._schema.is_mutable:
            hint = "use the form that returns its result; torch.compile functionalises those of ATen"
            raise LoweringError(f"{target} changes its arguments, and has no lowering to HLO", hint=hint)
    leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
    has_effects = node.target is not target
    waits = isinstance(target, OpOverload) and _is_collective(target)
    name = str(args[0]) if target in _CHANGING else str(target)
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Instruction)]
    given_nodes = node.args[2 * has_effects :], dict(node.kwargs)
    traced = tree_leaves(tree_map_only(Node, lambda each: each.meta.get("val"), given_nodes))
    orders = _orders(traced, places) if len(traced) == len(leaves) else [None] * len(places)

    def run(tensors: Sequence[torch.Tensor]) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        positional, named = tree_unflatten(given, spec)
        with torch.no_grad():
            found = target(*positional, **named)
            return tree_map_only(torch.Tensor, torch.ops._c10d_functional.wait_tensor, found) if waits else found

    def on_host(out: Any, *arrays: Any) -> None:
        METRICS.fallbacks[name] += 1
        results = _tensors(run([_laid_out(as_tensor(a), order) for a, order in zip(arrays, orders, strict=True)]))
        for place, result in zip(out if isinstance(out, tuple) else (out,), results, strict=True):
            place[...] = as_array(result)

    operands = [leaves[k] for k in places]
    number = f"{PREFIX}{name}.{next(_numbers)}"
    custom_call(number)(on_host)
    results = run([without_memory(operand) for operand in operands])
    if any(not isinstance(leaf, torch.Tensor) and leaf is not None for leaf in tree_leaves(results)):
        raise LoweringError(
            f"{name} gives something that is no tensor, which a program cannot take from a host call",
            hint="have the operator return a tensor of one element, or call it outside of the program",
        )
    draws = isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
    single = isinstance(results, torch.Tensor)
    has_side_effect = draws or waits or has_effects
    values = called(
        g,
        number,
        operands,
        results if single else _tensors(results),
        custom_call_has_side_effect=has_side_effect,
    )
    if single:
        return values
    found = iter(values)
    return tree_map_only(torch.Tensor, lambda _: next(found), results)


def _tensors(results: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(results) if leaf is not None]


def _orders(traced: Sequence[Any], places: Sequence[int]) -> list[tuple[int, ...] | None]:
    """The order of dimensions in memory of each tensor that is not row-major, slowest first."""
    orders = []
    for value in (traced[k] for k in places):
        known = isinstance(value, torch.Tensor) and all(isinstance(k, int) for k in (*value.shape, *value.stride()))
        orders.append(dense_order(value.shape, value.stride()) if known and not value.is_contiguous() else None)
    return orders


def _laid_out(tensor: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    return tensor if order is None else tensor.permute(order).contiguous().permute(inverse(order))
