"""`torch.distributed.checkpoint.async_save`: tensors of the device are copied to the host before it goes on.

torch copies a tensor's memory there by its address, and then whatever attributes its class has.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from xloom.torch.lazy.runtime.late_imports import when_imported
from xloom.torch.lazy.tensor.tensor import XlaTensor


def register() -> None:
    """Has them be copied as `cpu` does."""
    when_imported("torch.distributed.checkpoint._state_dict_stager", _replace)


def _replace(module: Any) -> None:
    stager = module.StateDictStager
    stager._offload_tensor = _staging(stager._offload_tensor)


def _staging(own: Any) -> Any:
    @wraps(own)
    def run(self: Any, x: torch.Tensor, memo: dict[int, Any], *args: Any, **named: Any) -> torch.Tensor:
        return x.detach().cpu() if isinstance(x, XlaTensor) else own(self, x, memo, *args, **named)

    return run
