"""A table that all processes can write to and read from before they can send each other anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol


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


def gather(
    store: KeyValueStore, key: str, process: int, count: int, value: Mapping[str, Any], timeout: float
) -> list[dict[str, Any]]:
    """What all `count` processes tell under a key: the first gathers it, and tells all, so that each asks but once.

    Raises what the store does after `timeout` seconds."""
    store.put(f"{key}/{process}", json.dumps(value))
    if not process:
        store.put(f"{key}/all", json.dumps([json.loads(store.get(f"{key}/{p}", timeout)) for p in range(count)]))
    return json.loads(store.get(f"{key}/all", timeout))
