"""What the whole process has while anybody needs it, in whatever thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class WhileUsed:
    """A context that threads share: the first one in calls `begin`, whose result the last one out calls."""

    def __init__(self, begin: Callable[[], Callable[[], None]]):
        self._begin = begin
        self._lock = threading.Lock()
        self._users = 0
        self._end: Callable[[], None] = lambda: None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._end = self._begin()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._end()
