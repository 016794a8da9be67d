"""Whole parameters of FullyShardedDataParallel that are asked for on the host are copied there one by one.

torch has the module's own parameters become tensors of the host meanwhile, which those of the device cannot.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

from xloom.torch.lazy.runtime.late_imports import when_imported
from xloom.torch.lazy.tensor.tensor import XlaTensor


def register() -> None:
    """Has them be so, also if FullyShardedDataParallel is imported later."""
    when_imported("torch.distributed.fsdp._flat_param", _stay)
    when_imported("torch.distributed.fsdp._state_dict_utils", _copy_to_host)


def _stay(module: Any) -> None:
    own = module.FlatParamHandle.to_cpu

    @wraps(own)
    def to_cpu(self: Any) -> AbstractContextManager[None]:
        return nullcontext() if isinstance(self.flat_param, XlaTensor) else own(self)

    module.FlatParamHandle.to_cpu = to_cpu


def _copy_to_host(module: Any) -> None:
    own = module._common_unshard_post_state_dict_hook

    @wraps(own)
    def run(wrapped: Any, state: Any, found: dict[str, Any], prefix: str, hook: Any) -> dict[str, Any]:
        def copied(found: dict[str, Any], prefix: str, name: str) -> None:
            hook(found, prefix, name)
            if isinstance(found[name], XlaTensor):
                found[name] = found[name].cpu()

        return own(wrapped, state, found, prefix, copied if state._state_dict_config.offload_to_cpu else hook)

    module._common_unshard_post_state_dict_hook = run
