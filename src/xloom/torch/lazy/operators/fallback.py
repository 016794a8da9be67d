"""Operators without a lowering: an error that says what to do, or the CPU where the user has allowed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.torch.host_fallback import allowed
from xloom.torch.lazy.operators.host_values import on_host
from xloom.torch.lazy.recording.table import Handler
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.lowering.registry import no_lowering
from xloom.torch.metrics import METRICS


def handler(op: Any) -> Handler:
    """The CPU, asked for at every call: the environment may change."""
    written = [(k, a.name) for k, a in enumerate(op._schema.arguments) if a.alias_info and a.alias_info.is_write]

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        if not allowed(op):
            raise no_lowering(op)
        METRICS.fallbacks[str(op)] += 1
        found = on_host(op, args, kwargs or {})
        if not written:
            return found
        targets = [args[k] if k < len(args) else (kwargs or {})[name] for k, name in written]
        for target, value in zip(targets, found if isinstance(found, (list, tuple)) else [found], strict=False):
            assert isinstance(target, XlaTensor)
            target.copy_(value)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return run
