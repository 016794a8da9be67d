"""The memories that a device can use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xloom.pjrt.device import Device

KINDS = ("device", "pinned_host", "unpinned_host")
"""Kinds of memory; a kind's number is its place here. The first is where data of a device is by default."""


@dataclass(eq=False)
class MemorySpace:
    """One memory of one device."""

    id: int
    kind: str
    device: Device = field(repr=False)

    @property
    def kind_id(self) -> int:
        """The number of the kind."""
        return KINDS.index(self.kind)

    @property
    def devices(self) -> list[Device]:
        """The devices that can use it."""
        return [self.device]

    def __str__(self) -> str:
        return f"{self.kind}({self.device})"
