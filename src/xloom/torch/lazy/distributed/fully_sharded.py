"""`fully_shard`, and FullyShardedDataParallel, of a module that is on the host move it to the device, as for others.

torch gives each parameter other memory, which it cannot where it does not know the device; modules move as `to` does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from xloom.torch.lazy.runtime.late_imports import replace, when_imported

_SECOND, _FIRST = "torch.distributed.fsdp._fully_shard._fsdp_init", "torch.distributed.fsdp._init_utils"


def register() -> None:
    """Has them do so, also if they are imported later."""
    when_imported(_SECOND, partial(replace, "_get_modules_and_states", _moving))
    when_imported(_FIRST, partial(replace, "_move_module_to_device", _moving_all_but_wrapped))


def _moving(own: Any) -> Any:
    @wraps(own)
    def run(module: Module | Sequence[Module], device: torch.device, ignored: Any, *rest: Any, **named: Any) -> Any:
        if device.type == "xla":
            for each in (module,) if isinstance(module, Module) else module:
                _move(each, device, ignored or ())
        return own(module, device, ignored, *rest, **named)

    return run


def _moving_all_but_wrapped(own: Any) -> Any:
    @wraps(own)
    def run(module: Module, parameters: Any, buffers: Any, device: torch.device | None) -> None:
        if device is None or device.type != "xla":
            own(module, parameters, buffers, device)
            return
        from torch.distributed.fsdp import FullyShardedDataParallel

        wrapped = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
        theirs = [t for each in wrapped for t in (*each.parameters(), *each.buffers())]
        _move(module, device, [*parameters, *buffers, *theirs])

    return run


def _move(module: Module, device: torch.device, ignored: Collection[Tensor]) -> None:
    """What is distributed stays: parts of modules that are sharded already are kept on the host where users say so."""
    from torch.distributed.tensor import DTensor

    stay = set(map(id, ignored))

    def moved(t: Tensor) -> Tensor:
        return t if t.device.type != "cpu" or id(t) in stay or isinstance(t, DTensor) else t.to(device)

    module._apply(moved)
