"""A setting of the whole process, of which threads want different values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SharedSetting:
    """Threads that want the same value go side by side; others wait until these are out."""

    def __init__(self, put: Callable[[str], None], otherwise: str):
        self._put, self._otherwise = put, otherwise
        self._value = otherwise
        self._users = 0
        self._changed = threading.Condition()

    @contextmanager
    def of(self, value: str) -> Iterator[None]:
        """While the context lasts the setting has that value."""
        with self._changed:
            self._changed.wait_for(lambda: not self._users or self._value == value)
            self._have(value)
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    self._have(self._otherwise)
                    self._changed.notify_all()

    def _have(self, value: str) -> None:
        if value != self._value:
            self._put(value)
            self._value = value
