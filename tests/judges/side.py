"""A side of a judge, in a child process of its own, and what it makes of a program."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.judges.child import run_cases
from tests.judges.sides import Source, Task

_PER_CHILD = 1000  # programs, after which a side starts afresh: compiled code piles up


@dataclass
class Outcome:
    """What a side made of a program: its results, or why it has none."""

    status: str  # ran, refused, crashed, hung
    message: str = ""
    results: Any = None


class Side:
    """A side in its child process."""

    def __init__(self, name: str, folder: Path, timeout: float):
        self.name, self.timeout = name, timeout
        self.file = folder / f"{name}.pickle"
        self._queue: deque[Task | None] = deque()
        self._verdicts = self._start()
        self._ran = 0

    def run(self, source: Source) -> Outcome:
        """The outcome of one program."""
        self._ran += 1
        if self._ran % _PER_CHILD == 0:
            self.stop()
            self._verdicts = self._start()
        self.file.unlink(missing_ok=True)
        name = f"{self.name} {self._ran}"
        self._queue.append(Task(self.name, source, str(self.file), name))
        # a child that dies after its answer leaves a verdict behind that is of the program before
        verdict = next(v for v in self._verdicts if v["name"] == name)
        message = verdict["message"]
        if verdict["status"] == "pass":
            return Outcome("ran", "", pickle.loads(self.file.read_bytes()))
        if verdict["status"] == "crash":
            return Outcome("crashed", message)
        return Outcome("hung" if message.startswith("no answer in") else "refused", message)

    def _start(self) -> Iterator[dict[str, str]]:
        return run_cases("tests.judges.sides:cases", iter(self._queue.popleft, None), self.timeout)

    def stop(self) -> None:
        """Ends the child."""
        self._queue.append(None)
        for _ in self._verdicts:
            pass
