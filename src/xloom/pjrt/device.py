"""Devices and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xloom.pjrt.memory_space import KINDS, MemorySpace
from xloom.pjrt.queue import Queue

if TYPE_CHECKING:
    from xloom.pjrt.client import Client


@dataclass(frozen=True)
class DeviceDescription:
    """A device that need not be present."""

    id: int
    kind: str
    process_index: int = 0
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


class Device:
    """A device that runs programs, one after another."""

    def __init__(self, client: Client, description: DeviceDescription):
        self.client = client
        self.description = description
        self.queue = Queue(f"{description}")
        self.memory_spaces = [MemorySpace(description.id * len(KINDS) + k, kind, self) for k, kind in enumerate(KINDS)]

    @property
    def id(self) -> int:
        """The device's number among all of the platform."""
        return self.description.id

    @property
    def local_hardware_id(self) -> int:
        """The device's number among those of this process."""
        return self.description.id

    @property
    def is_addressable(self) -> bool:
        """Whether this process can give it work."""
        return True

    @property
    def default_memory(self) -> MemorySpace:
        """Where its data is unless the caller says otherwise."""
        return self.memory_spaces[0]

    def memory_space(self, kind: str) -> MemorySpace:
        """The device's memory space of a kind."""
        return self.memory_spaces[KINDS.index(kind)]

    def __str__(self) -> str:
        return str(self.description)

    def __repr__(self) -> str:
        return f"Device({self})"
