"""Parameters that modules share, as embeddings do with output layers: they stay shared when a module moves.

Where torch cannot give a parameter another memory, as of a device that it does not know, `Module._apply` makes a new
one at each place.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter

from xloom.torch.lazy.tensor.tensor import XlaTensor

_Place = tuple[Module, str]
_own: Callable[..., Any] = Module._apply
_thread = threading.local()


@functools.wraps(_own)
def _apply(module: Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
    if not recurse or getattr(_thread, "inside", False):
        return _own(module, fn, recurse)
    shared = _shared(module)
    _thread.inside = True
    try:
        _own(module, fn)
    finally:
        _thread.inside = False
    for before, ((first, name), *others) in shared:
        kept = first._parameters[name]
        if isinstance(before, XlaTensor) or isinstance(kept, XlaTensor):
            for other, key in others:
                other._parameters[key] = kept
    return module


def _shared(top: Module) -> list[tuple[Parameter, list[_Place]]]:
    """The parameters that have several places, and these."""
    found: dict[int, tuple[Parameter, list[_Place]]] = {}
    for module in top.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found.setdefault(id(parameter), (parameter, []))[1].append((module, name))
    return [each for each in found.values() if len(each[1]) > 1]


def register() -> None:
    """Has modules keep parameters shared, from now on."""
    Module._apply = _apply  # type: ignore[method-assign]
