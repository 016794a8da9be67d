"""What will be done: a value or an error that comes later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_changes = threading.Lock()  # of all futures: it is held for a few instructions


class Future:
    """Set once, by whoever does the work; anybody may wait for it or be called then."""

    __slots__ = ("__weakref__", "_callbacks", "error", "is_ready", "value")

    def __init__(self) -> None:
        self.is_ready = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] | None = None

    @staticmethod
    def ready(value: Any = None) -> Future:
        """A future whose work is done."""
        future = Future()
        future.value, future.is_ready = value, True
        return future

    @staticmethod
    def failed(error: BaseException) -> Future:
        """A future whose work has failed."""
        future = Future()
        future.error, future.is_ready = error, True
        return future

    @property
    def is_known(self) -> bool:
        """Whether there is a value, which a device may still be making."""
        return self.is_ready and self.error is None

    def known(self) -> Any:
        """The value as soon as it is known: before it is ready where a device still makes it. Raises the error."""
        return self.result()

    def on_known(self, callback: Callable[[Future], None]) -> None:
        """Calls `callback(self)` when the value is known, or never will be."""
        self.on_ready(callback)

    def set(self, value: Any = None) -> None:
        """Ends the work with a value."""
        self._finish(value, None)

    def fail(self, error: BaseException) -> None:
        """Ends the work with an error."""
        self._finish(None, error)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with _changes:
            assert not self.is_ready, "a future is set once"
            self.value, self.error, self.is_ready = value, error, True
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():  # without the lock: they may ask other futures
            callback(self)

    def on_ready(self, callback: Callable[[Future], None]) -> None:
        """Calls `callback(self)` when it is ready, in the thread that makes it so; now if it is."""
        if not self.is_ready:
            with _changes:
                if not self.is_ready:
                    self._callbacks = [*(self._callbacks or ()), callback]
                    return
        callback(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until it is ready; False after `timeout` seconds without."""
        if self.is_ready:
            return True
        gate = threading.Lock()
        gate.acquire()
        self.on_ready(lambda _: gate.release())
        return gate.acquire(timeout=-1 if timeout is None else timeout)

    def result(self) -> Any:
        """The value, once it is there. Raises the error."""
        self.wait()
        if self.error is not None:
            raise self.error
        return self.value
