"""Whom each process waits for, where all can read it: who only waits itself is not taken for the one that is gone.

Who waits long writes it to the store that all have in common. Who gives up follows what the others have written, from
the process that it waits for on. A thread of its own does so: a store may be kept by the process that is gone.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import NamedTuple

from xloom.distributed.key_value_store import KeyValueStore

_PARTS = 8
"""So many times within the seconds that others are waited for a process looks whom it waits for; from two of them on it
writes that."""
_ANSWER = 2.0
"""Seconds in which the store has answered, or does not."""


class Waiting(NamedTuple):
    """A process that waits for another one, and what they would come to."""

    other: int
    label: str


class Wait:
    """One that is under way, for whichever process it is just now."""

    def __init__(self, label: str, other: int):
        self.label, self.other, self.began = label, other, time.monotonic()

    @property
    def seconds(self) -> float:
        """Since when."""
        return time.monotonic() - self.began


class WaitingBoard:
    """What process number `process` writes, and reads of the others."""

    def __init__(self, store: KeyValueStore, process: int, seconds: float):
        self._store, self.process, self.seconds = store, process, seconds
        """So long others are waited for."""
        self._waits: dict[Wait, None] = {}
        self._given_up: Wait | None = None
        self._written: Waiting | None = None
        self._asked: _Questions = SimpleQueue()
        self._thread: threading.Thread | None = None

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """While it is under way."""
        self._serve()
        self._given_up = None
        self._waits[wait] = None
        try:
            yield
        finally:
            del self._waits[wait]

    def _serve(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, args=(weakref.ref(self), self._asked), daemon=True)
            self._thread.start()

    def behind(self, wait: Wait) -> list[Waiting] | None:
        """Whom that one waits for that a wait, which is given up, was for, and so on; None if no store answers.

        What is given up stays written until there is another wait: others may see this process go."""
        self._serve()
        self._given_up = wait
        answer: SimpleQueue[list[Waiting]] = SimpleQueue()
        self._asked.put((wait.other, answer))
        try:
            return answer.get(timeout=_ANSWER)
        except Empty:
            return None

    def write(self) -> None:
        """Writes the first wait if it is long, or what was given up; takes back what is over."""
        wait = next(iter(list(self._waits)), None)
        if wait is None or wait.seconds < 2 * self.seconds / _PARTS:
            wait = self._given_up
        now = Waiting(wait.other, wait.label) if wait is not None else None
        if now != self._written:
            self._store.put(_key(self.process), json.dumps(now))
            self._written = now

    def follow(self, other: int) -> list[Waiting]:
        """Whom a process waits for, and so on, by what they have written."""
        found: list[Waiting] = []
        passed = {self.process, other}
        while (text := self._store.try_get(_key(other))) is not None and (said := json.loads(text)) is not None:
            if said[0] in passed:
                return []  # they wait for each other: none of them is gone
            found.append(Waiting(*said))
            other = found[-1].other
            passed.add(other)
        return found


_Questions = SimpleQueue[tuple[int, SimpleQueue[list[Waiting]]]]


def _key(process: int) -> str:
    return f"waits/{process}"


def _serve(of: weakref.ref[WaitingBoard], asked: _Questions) -> None:
    while (board := of()) is not None:
        pause = board.seconds / _PARTS
        try:
            board.write()
            del board
            other, answer = asked.get(timeout=pause)
            if (board := of()) is not None:
                board.write()
                answer.put(board.follow(other))
        except Empty:
            continue
        except RuntimeError:  # of a store that is gone
            return
