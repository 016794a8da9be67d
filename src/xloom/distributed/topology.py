"""Which devices the processes have: each tells the others, as XLA's own clients do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from xloom.distributed.key_value_store import KeyValueStore, gather

DEVICES_PER_PROCESS = 2048
"""Ids of devices begin at multiples of it, as XLA:CPU's do."""


@dataclass(frozen=True)
class LocalTopology:
    """What a process tells."""

    devices: int
    why_no_mpi: str = ""
    """Why it cannot send anything to others; empty if it can."""
    machine: str = ""
    """The same in processes that have memory in common."""
    processors: Sequence[int] = ()
    """Those of the machine that it may run on."""


def exchange_topology(
    store: KeyValueStore, platform: str, process: int, count: int, local: LocalTopology, timeout: float
) -> list[LocalTopology]:
    """What each process tells. Raises what the store does after `timeout` seconds."""
    told = gather(store, f"topology/{platform}", process, count, asdict(local), timeout)
    return [LocalTopology(**fields) for fields in told]


def device_id(process: int, number: int) -> int:
    """The id of a process's device."""
    return process * DEVICES_PER_PROCESS + number


def number_of(device: int) -> int:
    """Which device of its process it is, by its id."""
    return device % DEVICES_PER_PROCESS
