"""What runs an operator, found when it is first met: by hand, a view, a lowering, a kernel of torch's, or the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey

from xloom.errors import LoweringError
from xloom.torch.decompositions import decompositions
from xloom.torch.lazy import batch_norm, fallback, foreach, host_values, mutation, transfer, views
from xloom.torch.lazy.record import Recorder
from xloom.torch.lazy.table import HANDLERS, KEPT, NAMED, Handler
from xloom.torch.lazy.tensor import tensor_of
from xloom.torch.lowering import has_lowering, lower
from xloom.torch.metrics import METRICS

_FILLS_BY_HAND = (batch_norm, fallback, foreach, host_values, transfer, views)  # importing them fills NAMED


def handler_of(op: Any) -> Handler:
    """What runs `op` from now on."""
    handler = find(op)
    KEPT.append(op)
    HANDLERS[id(op)] = handler
    return handler


def find(op: Any) -> Handler:
    """The first way there is, in the order of the module's title."""
    by_hand = NAMED.get(str(op))
    if by_hand is not None:
        return by_hand
    if not isinstance(op, torch._ops.OpOverload):
        return higher_order(op)
    ways = (views.handler, mutation.handler, lowered, foreach.handler, host_values.handler, kernel, decomposed)
    for way in ways:
        handler = way(op)
        if handler is not None:
            return handler
    return fallback.handler(op)


def lowered(op: Any) -> Handler | None:
    """Recorded, and lowered by the table."""
    if op._schema.is_mutable or not has_lowering(op):
        return None
    return functional(Recorder(op, lambda g, args, kwargs: lower(g, op, args, kwargs)))


def functional(recorder: Recorder) -> Handler:
    """New tensors for what is recorded."""

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        found = recorder(args, kwargs)
        if found.__class__ is list:
            return [None if each is None else tensor_of(each) for each in found]
        return tensor_of(found)

    return run


def kernel(op: Any) -> Handler | None:
    """torch's kernel made of other operators, if it has one for every device."""
    name = op.name()
    for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.CompositeExplicitAutograd):
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key) or key in op.py_kernels:
            return lambda args, kwargs: _made_of_others(op, key, args, kwargs)
    return None


def _made_of_others(op: Any, key: DispatchKey, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    METRICS.decomposed[str(op)] += 1
    return op._op_dk(key, *args, **(kwargs or {}))


def decomposed(op: Any) -> Handler | None:
    """torch's decomposition in Python."""
    rule = decompositions().get(op)
    if rule is None:
        return None

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        METRICS.decomposed[str(op)] += 1
        return rule(*args, **(kwargs or {}))

    return run


def higher_order(op: Any) -> Handler:
    """An operator that takes functions."""
    raise LoweringError(f"{op} is not for tensors on xla", hint="use torch.compile(backend='xloom')")
