"""Devices and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xloom.distributed.topology import device_id, number_of
from xloom.pjrt.error import invalid
from xloom.pjrt.memory_space import KINDS, MemorySpace
from xloom.pjrt.queue import Queue

if TYPE_CHECKING:
    from xloom.pjrt.client import Client
    from xloom.pjrt.compiler import Compiler


@dataclass(frozen=True)
class DeviceDescription:
    """A device that need not be present."""

    id: int
    kind: str
    process_index: int = 0
    platform: str = ""
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def described(compiler: Compiler, counts: Sequence[int]) -> list[DeviceDescription]:
    """The devices, which a compiler compiles for, of processes that have so many each."""
    return [
        DeviceDescription(device_id(process, k), compiler.device_kind, process, compiler.platform_name)
        for process, count in enumerate(counts)
        for k in range(count)
    ]


class Device:
    """A device that runs programs, one after another."""

    def __init__(self, client: Client, description: DeviceDescription):
        self.client = client
        self.description = description
        self.queue = Queue(f"{description}")
        self.local_hardware_id = number_of(description.id)
        """The device's number among those of its process."""
        self.is_addressable = description.process_index == client.process_index
        """Whether this process can give it work."""
        kinds = KINDS if self.is_addressable else ()
        self.memory_spaces = [MemorySpace(description.id * len(KINDS) + k, kind, self) for k, kind in enumerate(kinds)]

    @property
    def id(self) -> int:
        """The device's number among all of the platform."""
        return self.description.id

    @property
    def default_memory(self) -> MemorySpace:
        """Where its data is unless the caller says otherwise."""
        return self.memory_space(KINDS[0])

    def memory_space(self, kind: str) -> MemorySpace:
        """The device's memory space of a kind. Raises PjrtError for devices of other processes."""
        if not self.is_addressable:
            raise invalid(
                f"{self} is a device of process {self.description.process_index}, which alone has its memory",
                "do it there, or use a device of this process: addressable_devices",
            )
        return self.memory_spaces[KINDS.index(kind)]

    def memory_stats(self) -> Mapping[str, int] | None:
        """Bytes and counts of its memory, as `Compiler.memory_stats` says; None where that is the host's."""
        return self.client.compiler.memory_stats(self.id)

    def __str__(self) -> str:
        return str(self.description)

    def __repr__(self) -> str:
        return f"Device({self})"
