"""A table that all processes can write to and read from before they can send each other anything."""

from __future__ import annotations

from typing import Protocol


class KeyValueStore(Protocol):
    """What JAX's coordination service, or a Store of torch's, gives."""

    def put(self, key: str, value: str) -> None:
        """Writes a value, once."""
        ...

    def get(self, key: str, timeout: float) -> str:
        """The value, as soon as it is there. Raises an error after `timeout` seconds."""
        ...

    def try_get(self, key: str) -> str | None:
        """The value, or None as long as there is none."""
        ...
