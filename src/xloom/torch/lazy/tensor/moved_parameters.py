"""Parameters of modules that move to the device or from it: what new ones take from those before.

Where torch cannot give a parameter another memory, as of a device that it does not know, `Module._apply` makes a new
one at each place. Those that modules share, as embeddings do with output layers, stay shared; hooks are of the new one;
an optimiser that was made before goes on with it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from xloom.torch.lazy.tensor.tensor import XlaTensor

_Place = tuple[Module, str]
_own: Callable[..., Any] = Module._apply
_own_zero_grad: Callable[..., None] = Optimizer.zero_grad
_thread = threading.local()
_SUCCESSOR = "_xloom_successor"
"""The attribute of a parameter that has another one in its place."""


@functools.wraps(_own)
def _apply(module: Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
    if not recurse or getattr(_thread, "inside", False):
        return _own(module, fn, recurse)
    places = _places(module)
    _thread.inside = True
    try:
        _own(module, fn)
    finally:
        _thread.inside = False
    for before, ((first, name), *others) in places:
        after = first._parameters[name]
        if after is None or not (isinstance(before, XlaTensor) or isinstance(after, XlaTensor)):
            continue
        for other, key in others:
            other._parameters[key] = after
        if after is not before:
            _succeed(before, after)
    return module


def _places(top: Module) -> list[tuple[Parameter, list[_Place]]]:
    """The parameters, and where each is."""
    found: dict[int, tuple[Parameter, list[_Place]]] = {}
    for module in top.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found.setdefault(id(parameter), (parameter, []))[1].append((module, name))
    return list(found.values())


def _succeed(before: Any, after: Any) -> None:
    """Gives a parameter the hooks of the one before it; what removes them goes by these same dictionaries."""
    for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        if getattr(before, hooks):
            setattr(after, hooks, getattr(before, hooks))
    setattr(before, _SUCCESSOR, after)


@functools.wraps(_own_zero_grad)
def _zero_grad(optimizer: Optimizer, set_to_none: bool = True) -> None:
    _go_on_with_successors(optimizer)
    _own_zero_grad(optimizer, set_to_none)


def _go_on_with_successors(optimizer: Optimizer, *_: Any) -> None:
    """Parameters that have moved since the optimiser was made are what it changes, state included."""
    for group in optimizer.param_groups:
        for k, parameter in enumerate(group["params"]):
            if hasattr(parameter, _SUCCESSOR):
                group["params"][k] = _moved(optimizer, parameter)


def _moved(optimizer: Optimizer, parameter: Any) -> Any:
    now = parameter
    while hasattr(now, _SUCCESSOR):
        now = getattr(now, _SUCCESSOR)
    if parameter in optimizer.state:
        of_shape = parameter.shape
        optimizer.state[now] = {
            name: value.to(now.device) if isinstance(value, Tensor) and value.shape == of_shape else value
            for name, value in optimizer.state.pop(parameter).items()
        }
    return now


def register() -> None:
    """Has modules and optimisers do so, from now on."""
    Module._apply = _apply  # type: ignore[method-assign]
    Optimizer.zero_grad = _zero_grad  # type: ignore[method-assign]
    register_optimizer_step_pre_hook(_go_on_with_successors)
