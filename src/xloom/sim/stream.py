"""Streams: work done one after another, while the host goes on; events order one stream after another."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import Any

_numbers = count(1)


class Event:
    """A point in a stream's work."""

    def __init__(self, reached: Future[Any]):
        self._reached = reached

    def is_reached(self) -> bool:
        """True when all work that was enqueued before is done."""
        return self._reached.done()

    def wait(self, timeout: float | None = None) -> None:
        """The calling thread waits. Raises what the work before raised."""
        self._reached.result(timeout)


class Stream:
    """A queue of work, and a thread that does it.

    After an error nothing more is done: what is enqueued fails with it, until `synchronize` has raised it.
    """

    def __init__(self, name: str = "stream"):
        self.handle = next(_numbers)
        """What custom calls get as their stream."""
        self._state = _State()
        threading.Thread(target=_work, args=(self._state,), name=f"xloom-{name}", daemon=True).start()
        weakref.finalize(self, self._state.waiting.put, None)

    def enqueue(self, work: Callable[[], Any]) -> Future[Any]:
        """Does `work` after all that was enqueued before, in the caller's context; the future has its value."""
        future: Future[Any] = Future()
        self._state.waiting.put((partial(copy_context().run, work), future))
        return future

    def record(self) -> Event:
        """The point behind all work enqueued so far."""
        return Event(self.enqueue(lambda: None))

    def wait(self, event: Event) -> None:
        """What is enqueued from now on comes after an event of another stream."""
        self.enqueue(event.wait)

    def synchronize(self) -> None:
        """Waits for all work. Raises the first error, and forgets it."""
        done = threading.Event()
        self._state.waiting.put((done.set, None))
        done.wait()
        error, self._state.error = self._state.error, None
        if error is not None:
            raise error


class _State:
    """What stream and thread share; the thread must not keep the stream alive."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any] | None] | None] = queue.SimpleQueue()
        self.error: BaseException | None = None


def _work(state: _State) -> None:
    while (item := state.waiting.get()) is not None:
        work, future = item
        if future is None:
            work()
            continue
        try:
            if state.error is not None:
                raise state.error
            value = work()
        except BaseException as error:
            state.error = error
            future.set_exception(error)
        else:
            future.set_result(value)
        del work, future, item  # not until there is more to do
