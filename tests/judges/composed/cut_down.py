"""Cuts failing programs down, with a child that runs each attempt and may die of it."""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax

from tests.judges.child import run_cases
from tests.judges.composed.program import Case
from tests.judges.composed.reduction import reduced
from tests.judges.composed.trial import Attempt, made


@dataclass(frozen=True)
class Small:
    """A failing program made smaller."""

    number: int
    status: str
    message: str
    source: str


class _Judge:
    """Says how cases fail."""

    def __init__(self, folder: str, timeout: float):
        self.file, self.phase = Path(folder, "record"), Path(folder, "phase")
        self._queue: deque[Attempt | None] = deque()
        self._verdicts = run_cases("tests.judges.composed.trial:attempts", iter(self._queue.popleft, None), timeout)

    def failure(self, case: Case) -> tuple[str, str]:
        """Status and message; a part of the message says whether two programs fail alike."""
        self._queue.append(Attempt(case, str(self.file), str(self.phase)))
        verdict = next(self._verdicts)
        if verdict["status"] == "pass":
            record = json.loads(self.file.read_text())
            return record["status"], record["message"]
        ours = self.phase.read_text() == "ours" and verdict["status"] == "crash"
        return "died" if ours else "no reference", verdict["message"]

    def stop(self) -> None:
        """Ends the child."""
        self._queue.append(None)
        for _ in self._verdicts:
            pass


def cut_down(seed: int, types: str, numbers: Sequence[int], timeout: float) -> Iterator[Small]:
    """The programs of these numbers that fail, each with two minutes for what is smaller."""
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        judge = _Judge(folder, timeout)
        for number in numbers:
            case = made(seed, types, number)
            if case is None:
                continue
            kind = _kind(*judge.failure(case))
            if kind[0] in ("wrong", "refused", "died"):
                small = reduced(case, lambda smaller, kind=kind: _kind(*judge.failure(smaller)) == kind)
                yield Small(number, *judge.failure(small), small.source())
        judge.stop()


def _kind(status: str, message: str) -> tuple[str, str]:
    return status, message[:60] if status == "refused" else ""
