"""A Store of torch's as the table by which processes find each other."""

from __future__ import annotations

from datetime import timedelta

from torch._C._distributed_c10d import Store

from xloom.errors import DistributedError


class TorchStore:
    """See `xloom.distributed.key_value_store.KeyValueStore`."""

    def __init__(self, store: Store):
        self._store = store

    def put(self, key: str, value: str) -> None:
        """Writes a value, once."""
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> str:
        """The value, as soon as it is there."""
        try:
            self._store.wait([key], timedelta(seconds=timeout))
        except Exception as error:  # each kind of store has its own
            raise DistributedError(
                f"no process has written {key} to the store within {timeout:.0f} s: {error}",
                hint="did all processes start? look at the output of the one that did not come",
            ) from None
        return self._store.get(key).decode()

    def try_get(self, key: str) -> str | None:
        """The value, or None as long as there is none."""
        return self._store.get(key).decode() if self._store.check([key]) else None
