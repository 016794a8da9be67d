"""Futures: handlers that return before they are done say by them when they are."""

from __future__ import annotations

import itertools
import threading


class _Future:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: int | None = None


_pending: dict[int, _Future] = {}
_fresh = itertools.count(16, 16)  # handlers pass it around as a pointer


def create() -> int:
    """A new future."""
    number = next(_fresh)
    _pending[number] = _Future()
    return number


def complete(future: int, error: int | None = None) -> None:
    """Ends the waiting for a future."""
    found = _pending[future]
    found.error = error
    found.done.set()


def wait(future: int) -> int | None:
    """Waits for a future, which is then gone; returns its error object, or None."""
    found = _pending[future]
    found.done.wait()
    del _pending[future]
    return found.error
