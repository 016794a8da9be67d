"""PyTorch on xloom: needs the extra `xloom[torch]`. Importing it registers the device `xla`.

import xloom.torch
model, x = model.to("xla"), x.to("xla")     # recorded, and run as whole programs
model = torch.compile(model, backend="xloom")     # or compiled ahead, on tensors of the host
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xloom.torch.versions import check_version

check_version()  # before anything reaches into torch

from xloom.torch import metrics
from xloom.torch.custom_calls import custom_call
from xloom.torch.lazy.compatibility.torch_xla import device, devices, install_as_torch_xla, met, xm
from xloom.torch.lazy.distributed import registration as distributed_registration
from xloom.torch.lazy.recording.capture import hlo
from xloom.torch.lazy.recording.recompiles import recompiles
from xloom.torch.lazy.runtime import registration
from xloom.torch.lazy.runtime.device_client import use_backend
from xloom.torch.lazy.runtime.device_module import manual_seed
from xloom.torch.lazy.runtime.eager import eager
from xloom.torch.lazy.runtime.step import step, sync
from xloom.torch.lazy.runtime.with_passes import passes
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.metrics import metrics_report

if TYPE_CHECKING:
    from xloom.torch.ahead import export

registration.register()
distributed_registration.register()


def __getattr__(name: str) -> Any:
    if name == "export":  # imports torch.export, which takes a while
        from xloom.torch.ahead import export

        return export
    raise AttributeError(f"module 'xloom.torch' has no attribute {name!r}")


__all__ = [
    "XlaTensor",
    "custom_call",
    "device",
    "devices",
    "eager",
    "export",
    "hlo",
    "install_as_torch_xla",
    "manual_seed",
    "met",
    "metrics",
    "metrics_report",
    "passes",
    "recompiles",
    "step",
    "sync",
    "use_backend",
    "xm",
]
