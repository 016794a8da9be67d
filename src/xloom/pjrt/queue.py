"""The ordered work of a device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Queue:
    """Does what it is given, one after another, in a thread that starts with the first work."""

    def __init__(self, name: str):
        self.name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_closed = False

    @property
    def is_own_thread(self) -> bool:
        """Whether the calling thread is the one that does the work."""
        return threading.current_thread() is self._thread

    def submit(self, work: Callable[[], None]) -> None:
        """Does `work`, which must not raise, after all that was submitted before.

        At once where the queue's own thread submits it, which nobody else could do before it returns.
        """
        if self._thread is None:
            self._start()
        if self.is_own_thread or self._is_closed:
            work()
        else:
            self._work.put(work)

    def close(self) -> None:
        """Ends the thread once its work is done."""
        with self._starting:
            self._is_closed = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._work.put(None)
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # it refers to buffers
