"""The ordered work of a device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

LIMIT = 32
"""How much work waits at most, as on XLA's devices: each program that does holds memory for its results."""


class Queue:
    """Does what it is given, one after another, in a thread that starts with the first work."""

    def __init__(self, name: str):
        self.name = name
        self._free_slots: SimpleQueue[None] = SimpleQueue()  # a semaphore, and much faster than Python's own
        for _ in range(LIMIT):
            self._free_slots.put(None)
        self._work: SimpleQueue[tuple[Callable[[], None], bool] | None] = SimpleQueue()
        self._long_begun = self._long_ended = 0
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        """Held by who begins, ends or adds to the work."""
        self._is_closed = False

    @property
    def is_own_thread(self) -> bool:
        """Whether the calling thread is the one that does the work."""
        return threading.current_thread() is self._thread

    @property
    def is_nearly_done(self) -> bool:
        """Whether all work that is left is short."""
        return self._long_begun == self._long_ended

    def reserve(self) -> bool:
        """Takes a free slot for work, as soon as there is one; False where it needs none, as it is done at once."""
        if self._thread is None:
            self._start()
        if self.is_own_thread or self._is_closed:
            return False
        self._free_slots.get()
        return True

    def give_back(self) -> None:
        """Gives back a slot that was taken for nothing."""
        self._free_slots.put(None)

    def submit(self, work: Callable[[], None], *, is_reserved: bool = False, is_short: bool = False) -> None:
        """Does `work`, which must not raise, after all that was submitted before; waits while too much is waiting.

        At once where the queue's own thread submits it, which no other thread could do before it returns.
        """
        if is_reserved or self.reserve():
            with self._starting:  # nothing comes after the end
                if not self._is_closed:
                    self._long_begun += not is_short
                    self._work.put((work, is_short))
                    return
        work()

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
        while (next_one := self._work.get()) is not None:
            work, is_short = next_one
            work()
            del work, next_one  # they refer to buffers
            self._long_ended += not is_short
            self._free_slots.put(None)
