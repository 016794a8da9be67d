"""`torch.accelerator`: the device is torch's accelerator, which torch asks in C++ where no Python can answer.

Those questions are functions of `torch._C`; the ones here are about the device alone, as it is one to `DataParallel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xloom.torch.dtypes import FROM_TORCH
from xloom.torch.lazy.runtime import device_module, memory_statistics


def _capability(device: Any = None) -> dict[str, Any]:
    return {"supported_dtypes": set(FROM_TORCH)}


def _allocator_is_initialized() -> bool:
    return True


def _scatter(tensor: torch.Tensor, devices: Sequence[int], *_: Any) -> tuple[torch.Tensor]:
    """A batch's parts on the devices, of which there is one."""
    (device,) = devices
    return (tensor.to(torch.device("xla", device)),)


_ANSWERS = {
    "_accelerator_synchronizeDevice": device_module.synchronize,
    "_accelerator_setDeviceIndex": device_module.set_device,
    "_accelerator_getDeviceCapability": _capability,
    "_accelerator_isAllocatorInitialized": _allocator_is_initialized,
    "_accelerator_emptyCache": device_module.empty_cache,
    "_accelerator_emptyHostCache": device_module.empty_cache,
    "_accelerator_getDeviceStats": memory_statistics.memory_stats,
    "_accelerator_resetAccumulatedStats": memory_statistics.reset_peak_memory_stats,
    "_accelerator_resetPeakStats": memory_statistics.reset_peak_memory_stats,
    "_accelerator_getMemoryInfo": memory_statistics.mem_get_info,
}


def register() -> None:
    """Has torch ask these."""
    if not torch.cuda.is_available():  # torch's own, where it has one, wants streams of a GPU
        torch._C._scatter = _scatter  # type: ignore[attr-defined]
    for name, answer in _ANSWERS.items():
        if hasattr(torch._C, name):  # some are not in each of torch's versions
            setattr(torch._C, name, answer)
