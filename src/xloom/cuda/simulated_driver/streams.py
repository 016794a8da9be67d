"""Streams and events of a simulated driver: in which order work may run, and one such order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from xloom.cuda.driver import results
from xloom.cuda.simulated_driver.memory import RefusedError


@dataclass(eq=False)
class Event:
    """A point of a stream's work, the last one that it was recorded at."""

    recorded: int = 0
    reached: int = 0

    @property
    def is_reached(self) -> bool:
        """Whether all work before it is done; also of one that was never recorded."""
        return self.reached >= self.recorded


@dataclass(frozen=True)
class Work:
    """Something that a stream does once it may."""

    do: Callable[[], None]
    may_run: Callable[[], bool] = lambda: True


class Recorder(Protocol):
    """What takes work in the place of a stream."""

    def add(self, work: Work) -> None:
        """Takes some."""
        ...


@dataclass(eq=False)
class Stream:
    """Work of a context, in order."""

    context: Context
    waiting: deque[Work] = field(default_factory=deque)
    capture: Recorder | None = None
    """Who takes its work, while a graph is made of it."""

    def enqueue(self, do: Callable[[], None], may_run: Callable[[], bool] = lambda: True) -> None:
        """Does it after all that was enqueued before."""
        (self.waiting.append if self.capture is None else self.capture.add)(Work(do, may_run))


@dataclass(eq=False)
class Context:
    """A device's primary context."""

    device: int
    streams: list[Stream] = field(default_factory=list)
    error: int = results.SUCCESS
    """What kernels did wrong: it stays."""


class Order:
    """Runs work in an order that is drawn among those that streams and events allow."""

    def __init__(self, contexts: Iterable[Context], generator: np.random.Generator):
        self._contexts, self._generator = list(contexts), generator

    def run_until(self, is_done: Callable[[], bool], context: Context) -> None:
        """Runs work until something is done. Raises RefusedError with what goes wrong in a context meanwhile."""
        while not is_done():
            if not self.step():
                raise RefusedError(context.error or results.LAUNCH_FAILED)
        if context.error:
            raise RefusedError(context.error)

    def step(self) -> bool:
        """Runs the first work of a stream; False where there is none that may run."""
        ready = [s for c in self._contexts for s in c.streams if s.waiting and s.waiting[0].may_run()]
        if not ready:
            return False
        stream = ready[int(self._generator.integers(len(ready)))]
        work = stream.waiting.popleft()
        try:
            work.do()
        except RefusedError as error:
            stream.context.error = error.result
            for each in stream.context.streams:
                each.waiting.clear()
        return True
