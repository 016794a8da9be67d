"""The memories that a device can use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.pjrt.compiler import Compiler

if TYPE_CHECKING:
    from xloom.pjrt.device import Device

PINNED = "pinned_host"
KINDS = ("device", PINNED, "unpinned_host")
"""Kinds of memory; a kind's number is its place here. The first is where data of a device is by default."""

_NOUNS: dict[str, str] = dict(zip(KINDS, ("DeviceMemory", "PinnedHostMemory", "UnpinnedHostMemorySpace"), strict=True))


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

    @cached_property
    def is_host(self) -> bool:
        """Whether the host can read it."""
        compiler = type(self.device.client.compiler)
        return self.kind != KINDS[0] or compiler.to_host is Compiler.to_host

    @property
    def name(self) -> str:
        """By the kind and its number, as XLA names it."""
        platform = f"{self.device.description.platform}_" if self.kind == KINDS[0] else ""
        return f"{platform}{self.kind}_{self.id}".upper()

    @property
    def description(self) -> str:
        """As XLA describes it: the class, and whose it is."""
        of = self.device.description
        platform = of.platform.capitalize() if self.kind == KINDS[0] else ""
        noun = _NOUNS[self.kind]
        return f"{platform}{noun}(id={self.id}, process_index={of.process_index}, client={of.platform})"

    def put(self, array: np.ndarray) -> Any:
        """What the memory holds of an array of the host; not always a copy."""
        compiler = self.device.client.compiler
        if self.is_host:
            return compiler.to_pinned(array, self.device.id) if self.kind == PINNED else array
        return compiler.to_device(array, self.device.id)

    def get(self, value: Any) -> np.ndarray:
        """The array that the memory holds; not always a copy."""
        return value if self.is_host else self.device.client.compiler.to_host(value, self.device.id)

    def moves_from(self, source: MemorySpace) -> bool:
        """Whether what another memory holds comes here without the host."""
        compiler = self.device.client.compiler
        is_known = compiler is source.device.client.compiler and type(compiler).moved is not Compiler.moved
        return is_known and not (self.is_host or source.is_host)

    def moved(self, value: Any, source: MemorySpace) -> Any:
        """What the memory holds of what another one does, which it takes from there."""
        return self.device.client.compiler.moved(value, source.device.id, self.device.id)

    def holds(self, value: Any) -> bool:
        """Whether a value is what this memory holds, and no other device's."""
        return self.is_host or self.device.client.compiler.holds(value, self.device.id)

    def __str__(self) -> str:
        return f"{self.kind}({self.device})"
