"""`torch.xla.memory_allocated()` and others: what torch asks of a device's memory, in bytes.

What tensors hold is counted, whatever the device is. Nothing is kept that no tensor holds, so that what is reserved is
what is allocated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from xloom.torch.lazy.runtime import device_client, execution, held_memory


def memory_stats(device: Any = None) -> Mapping[str, int]:
    """The statistics that there are, by torch's names for them. Starts what was recorded."""
    execution.flush()
    now, most = held_memory.held(), held_memory.peak()
    stats = {"allocation.all.current": held_memory.count()}
    for name in ("active_bytes", "allocated_bytes", "reserved_bytes"):
        stats |= {f"{name}.all.current": now, f"{name}.all.peak": most}
    return stats


def memory_allocated(device: Any = None) -> int:
    """What tensors hold now."""
    return memory_stats()["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    """The most that they held, since the start or `reset_peak_memory_stats`."""
    return memory_stats()["allocated_bytes.all.peak"]


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begins `max_memory_allocated` anew."""
    execution.flush()
    held_memory.reset_peak()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """What is free of the device's memory, and all of it: the host's, where the device has none of its own."""
    stats = device_client.client().addressable_devices[0].memory_stats()
    if stats is not None and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats["bytes_in_use"], stats["bytes_limit"]
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
