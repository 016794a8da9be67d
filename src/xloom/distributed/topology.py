"""Which devices the processes have: each tells the others, as XLA's own clients do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from xloom.distributed.key_value_store import KeyValueStore

DEVICES_PER_PROCESS = 2048
"""Ids of devices begin at multiples of it, as XLA:CPU's do."""


@dataclass(frozen=True)
class LocalTopology:
    """What a process tells."""

    devices: int
    why_no_mpi: str = ""
    """Why it cannot send anything to others; empty if it can."""


def exchange_topology(
    store: KeyValueStore, platform: str, process: int, count: int, local: LocalTopology, timeout: float
) -> list[LocalTopology]:
    """What each process tells: the first gathers it, and tells all. Raises what the store does after `timeout`."""
    everywhere = f"global_topology/{platform}"
    store.put(f"local_topology/{platform}/{process}", json.dumps(asdict(local)))
    if not process:
        told = [json.loads(store.get(f"local_topology/{platform}/{p}", timeout)) for p in range(count)]
        store.put(everywhere, json.dumps(told))
    return [LocalTopology(**fields) for fields in json.loads(store.get(everywhere, timeout))]


def device_id(process: int, number: int) -> int:
    """The id of a process's device."""
    return process * DEVICES_PER_PROCESS + number


def number_of(device: int) -> int:
    """Which device of its process it is, by its id."""
    return device % DEVICES_PER_PROCESS
