"""`fully_shard` of a module that is on the host moves it to the device, as for other devices.

torch gives each parameter other memory, which it cannot where it does not know the device; modules move as `to` does.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from xloom.torch.lazy.runtime.late_imports import when_imported

_WHERE = "torch.distributed.fsdp._fully_shard._fsdp_init"
_NAME = "_get_modules_and_states"


def register() -> None:
    """Has `fully_shard` do so, also if it is imported later."""
    when_imported(_WHERE, _replace)


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
