"""`fully_shard` of a module that is on the host moves it to the device, as for other devices.

torch gives each parameter other memory, which it cannot where it does not know the device; modules move as `to` does.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

_WHERE = "torch.distributed.fsdp._fully_shard._fsdp_init"
_NAME = "_get_modules_and_states"


def register() -> None:
    """Has `fully_shard` do so, also if it is imported later."""
    if (module := sys.modules.get(_WHERE)) is not None:
        _replace(module)
    else:
        sys.meta_path.insert(0, _Finder())


def _replace(module: ModuleType) -> None:
    own: Any = getattr(module, _NAME)
    changed = _moving(own)
    for each in list(sys.modules.values()):
        if getattr(each, "__dict__", {}).get(_NAME) is own:  # others have imported the function
            setattr(each, _NAME, changed)


def _moving(own: Any) -> Any:
    @wraps(own)
    def run(module: Module | Sequence[Module], device: torch.device, ignored: Any, *rest: Any, **named: Any) -> Any:
        if device.type == "xla":
            for each in (module,) if isinstance(module, Module) else module:
                _move(each, device, ignored or ())
        return own(module, device, ignored, *rest, **named)

    return run


def _move(module: Module, device: torch.device, ignored: Collection[Tensor]) -> None:
    stay = set(map(id, ignored))
    module._apply(lambda t: t.to(device) if t.device.type == "cpu" and id(t) not in stay else t)


class _Finder(MetaPathFinder):
    """Finds the module where it is, once, and has it changed when it has run."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The spec of the one module."""
        if fullname != _WHERE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module
            loader.exec_module = lambda module: (run(module), _replace(module))
        return spec
