"""`torch.xla`: what torch asks of a device's module."""

from __future__ import annotations

from typing import Any

import torch

from xloom.torch.lazy.runtime import device_client, execution, random_state
from xloom.torch.lazy.runtime.streams import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream"]

_FLOATS = [torch.bfloat16, torch.float16]


def is_available() -> bool:
    """The device is always there."""
    return True


def is_initialized() -> bool:
    """And ready."""
    return True


def _lazy_init() -> None:
    """Nothing to do."""


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    """One."""
    return 1


def current_device() -> int:
    """Its number."""
    return 0


def get_device_name(device: Any = None) -> str:
    """What it is made of."""
    set_device(device or 0)
    return device_client.client().addressable_devices[0].description.kind


def check(device: torch.device | None) -> None:
    """Raises RuntimeError for one that there is not."""
    if device is not None and (device.index or 0) >= device_count():
        raise RuntimeError(f"there is one device of a process, xla:0, and no {device}")


def set_device(device: Any) -> None:
    """There is one. Raises RuntimeError for another."""
    check(torch.device("xla", device) if isinstance(device, int) else torch.device(device))


class device:
    """`with torch.xla.device(0):` does nothing, as there is one device."""

    def __init__(self, device: Any):
        set_device(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def synchronize(device: Any = None) -> None:
    """Starts what was recorded and waits for it."""
    execution.flush()
    device_client.wait()


def manual_seed(seed: int) -> None:
    """Seeds the device's generator; `torch.manual_seed` does, too."""
    random_state.manual_seed(seed)


manual_seed_all = manual_seed


def initial_seed() -> int:
    """The last seed given."""
    return random_state.initial_seed()


def get_rng_state(device: Any = "xla") -> torch.Tensor:
    """The generator's state: a uint8 tensor on the host."""
    return random_state.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "xla") -> None:
    """Goes on from a state."""
    random_state.set_state(new_state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What `torch.autocast("xla", dtype=...)` takes."""
    return _FLOATS


def is_bf16_supported() -> bool:
    """It is."""
    return True


def empty_cache() -> None:
    """Nothing is kept that is not used."""
