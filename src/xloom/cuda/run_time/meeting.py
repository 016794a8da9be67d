"""Where the threads that give several devices one program tell each other of their arrays."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any

from xloom.errors import EvaluationError


class Meeting:
    """The devices of one run, by number."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._told: dict[Hashable, dict[int, Any]] = {}
        self._left: dict[Hashable, int] = {}
        self._failure: str | None = None

    def meet(self, what: Hashable, members: Sequence[int], me: int, value: Any) -> dict[int, Any]:
        """What all members told about something, once each of them has.

        Raises EvaluationError when one of the devices will never come.
        """
        with self._change:
            told = self._told.setdefault(what, {})
            told[me] = value
            self._change.notify_all()
            self._change.wait_for(lambda: self._failure is not None or len(told) == len(members))
            if self._failure is not None:
                hint = "the arrays of that device have the error itself"
                raise EvaluationError(f"another device failed: {self._failure}", hint=hint)
            self._left[what] = self._left.get(what, 0) + 1
            if self._left[what] == len(members):
                del self._told[what], self._left[what]
            return told

    def fail(self, message: str) -> None:
        """Ends the wait of all."""
        with self._change:
            self._failure = self._failure or message
            self._change.notify_all()
