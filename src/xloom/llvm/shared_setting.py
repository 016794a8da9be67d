"""A setting of the whole process, of which threads want different values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedSetting(Generic[T]):
    """Threads that want the same value go side by side; others wait until these are out.

    The first one in calls `begin` with the value, whose result the last one out calls.
    """

    def __init__(self, begin: Callable[[T], Callable[[], None]]):
        self._begin = begin
        self._end: Callable[[], None] = lambda: None
        self._value: T | None = None
        self._users = 0
        self._changed = threading.Condition()

    @contextmanager
    def of(self, value: T) -> Iterator[None]:
        """While the context lasts the setting has that value."""
        with self._changed:
            self._changed.wait_for(lambda: not self._users or self._value == value)
            if not self._users:
                self._value, self._end = value, self._begin(value)
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    self._end()
                    self._changed.notify_all()
