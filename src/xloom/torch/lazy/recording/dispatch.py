"""What runs an operator, found when it is first met: by hand, a view, a lowering, a kernel of torch's, or the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table

from xloom.torch.decompositions import decompositions
from xloom.torch.lazy.operators import (
    batch_norm,
    factors,
    fallback,
    foreach,
    fused_optimizers,
    grad_scaler,
    host_arguments,
    host_values,
)
from xloom.torch.lazy.operators.checking import check_numbers, check_once, numbers_allowed
from xloom.torch.lazy.recording.lowered import lowered
from xloom.torch.lazy.recording.table import NAMED, Handler
from xloom.torch.lazy.runtime import transfer
from xloom.torch.lazy.tensor.layouts import of_decomposition
from xloom.torch.lazy.views import mutation, overlap, views
from xloom.torch.metrics import METRICS

_FILLS_BY_HAND = (
    batch_norm,
    fallback,
    foreach,
    fused_optimizers,
    grad_scaler,
    host_arguments,
    host_values,
    transfer,
    views,
)  # importing them fills NAMED


def find(op: Any) -> Handler:
    """The first handler there is, in the order of the module's title."""
    by_hand = NAMED.get(str(op))
    handler = views.of_its_base_kind(op, _found(op) if by_hand is None else by_hand)
    return overlap.guarded(op, handler) if op._schema.is_mutable and not _is_of_views(op) else handler


def _is_of_views(op: Any) -> bool:
    return torch.Tag.inplace_view in op.tags or op._schema.name in ("aten::set_", "aten::resize_", "aten::resize_as_")


def _found(op: Any) -> Handler:
    by_table = (host_values.handler, views.handler, mutation.handler, factors.handler, lowered, foreach.handler)
    for lookup in (*by_table, composite, decomposed, kernel):
        handler = lookup(op)
        if handler is not None:
            return handler
    return fallback.handler(op)


def composite(op: Any) -> Handler | None:
    """torch's definition by other operators, where autograd sees those."""
    key = DispatchKey.CompositeImplicitAutograd
    if key in op.py_kernels:
        return _counted(op, op.py_kernels[key])
    return _kernel(op, key)


def kernel(op: Any) -> Handler | None:
    """A kernel for this device, or torch's for every device."""
    if op.namespace != "aten" and (own := _kernel(op, DispatchKey.PrivateUse1)) is not None:
        return own  # by other operators, as FSDP's
    return _kernel(op, DispatchKey.CompositeExplicitAutograd)


def _kernel(op: Any, key: DispatchKey) -> Handler | None:
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return None
    return _counted(op, partial(op._op_dk, key))


def _counted(op: Any, function: Callable[..., Any]) -> Handler:
    name = str(op)

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        METRICS.decomposed[name] += 1
        return function(*args, **(kwargs or {}))

    return run


def decomposed(op: Any) -> Handler | None:
    """torch's decomposition in Python."""
    rule = decompositions().get(op) or decomposition_table.get(op)
    if rule is None:
        return None
    run = _counted(op, of_decomposition(op, rule))
    known: set[tuple] = set()
    allowed = numbers_allowed(op)

    def checked(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        check_once(known, op, args, kwargs or {})
        if allowed is not None:
            check_numbers(allowed, op, args, kwargs or {})
        return run(args, kwargs)

    return checked
