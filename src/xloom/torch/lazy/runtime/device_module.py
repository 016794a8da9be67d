"""`torch.xla`: what torch asks of a device's module."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from xloom.torch.lazy.runtime import device_client, execution, random_state
from xloom.torch.lazy.runtime.memory_statistics import (
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
)
from xloom.torch.lazy.runtime.streams import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "default_stream",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_stream",
    "stream",
]

_FLOATS = [torch.bfloat16, torch.float16]

_initialized = True
"""Asked by torch's gradient checkpointing: only then has it a recomputation draw the random numbers of the forward."""


def is_available() -> bool:
    """The device is always there."""
    return True


def is_initialized() -> bool:
    """And ready."""
    return True


def init() -> None:
    """Nothing to do."""


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


class DeviceProperties(NamedTuple):
    """What a device is."""

    name: str
    total_memory: int
    """In bytes."""


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What it is made of, and how much memory it has. Raises RuntimeError for a device that there is not."""
    return DeviceProperties(get_device_name(device), mem_get_info()[1])


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


def seed() -> int:
    """Seeds it with a random number, and gives that."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))
    return initial_seed()


seed_all = seed


def initial_seed() -> int:
    """The last seed given."""
    return random_state.initial_seed()


def get_rng_state(device: Any = "xla") -> torch.Tensor:
    """The generator's state: a uint8 tensor on the host."""
    return random_state.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "xla") -> None:
    """Goes on from a state."""
    random_state.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of each device's generator."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Goes on from the states of each."""
    for state in new_states:
        set_rng_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What `torch.autocast("xla", dtype=...)` takes."""
    return _FLOATS


def is_bf16_supported() -> bool:
    """It is."""
    return True


def empty_cache() -> None:
    """Nothing is kept that is not used."""
