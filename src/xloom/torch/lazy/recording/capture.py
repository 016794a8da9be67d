"""The HLO of a function of tensors, without running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from xloom.hlo.module import Module
from xloom.torch.lazy.recording.trace import TRACE
from xloom.torch.lazy.recording.trace_program import build
from xloom.torch.lazy.runtime.execution import flush, one_program
from xloom.torch.lazy.tensor.tensor import DEVICE, XlaTensor


def hlo(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
    """What `function(*args)` records on the device: a module whose results are the tensors that it returns.

    Tensors of the host among the arguments are moved to the device; a model's parameters have to be there. Raises
    RuntimeError when the function needs a value on the way, as `.item()` does: then there is no one program.
    """
    flush()
    args, kwargs = tree_map_only(torch.Tensor, lambda t: t.to(DEVICE), (args, kwargs))
    flush()
    epoch = TRACE.epoch
    with one_program():
        results = function(*args, **kwargs)
    if TRACE.epoch != epoch:
        raise RuntimeError("the function needs a value while it runs (.item(), print, bool), which ends a program")
    module = recorded(results, getattr(function, "__name__", type(function).__name__))
    del results
    flush()  # nothing, unless the function has changed something that lasts
    return module


def recorded(results: Any, name: str) -> Module:
    """What was recorded so far, with the tensors among `results` that wait for it as its results."""
    return build(TRACE.node, _indices(results, TRACE.epoch), name)


def _indices(results: Any, epoch: int) -> list[int]:
    values = [each._alias.read() for each in tree_leaves(results) if isinstance(each, XlaTensor)]
    wanted = list(dict.fromkeys(value.index for value in values if value.epoch == epoch and value.index >= 0))
    if not wanted:
        raise RuntimeError("the function returns no tensor that it computes on the device")
    return wanted
