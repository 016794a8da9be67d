"""Tests of ours, in other processes: a module crashes, or gives a wrong value."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from xloom.errors import EvaluationError
from xloom.hlo.module import Module

WRONG = "wrong"
"""The outcome of a module whose value is not right; "" if all is well, else the error."""


@dataclass(frozen=True)
class Trial:
    """What is done with a module: run natively on random arguments, or, with `passes`, these passes.

    `against` is "interpreter" or "jaxlib", whose values are the right ones, or nothing. `load` is code of custom calls.
    """

    against: str = ""
    passes: str = ""
    seed: int = 0
    load: tuple[str, ...] = ()


class Failure:
    """`Failure(Trial())(module)`: True if the module fails in the way in which the first one did that was asked about.

    With `trial.against` that is a wrong value alone; else a crash, an error of the same kind, or no end in `seconds`.
    """

    def __init__(self, trial: Trial, seconds: float = 60.0):
        self._trial, self.seconds = trial, seconds
        self._idle: list[_Server] = []
        self._lock = threading.Lock()
        self.wanted: str | None = WRONG if trial.against else None
        """The outcome that counts as failing; None until one is known."""

    def __call__(self, module: Module) -> bool:
        """Raises EvaluationError where the trial cannot be made: jaxlib or a file is missing."""
        outcome = self.outcome(module)
        if self.wanted is None:
            self.wanted = outcome
        return bool(outcome) and outcome == self.wanted

    def outcome(self, module: Module) -> str:
        """ "" of a module on which all is well, WRONG, or the kind of its error."""
        with self._lock:
            server = self._idle.pop() if self._idle else None
        server = server or _Server(self._trial)
        try:
            return server.outcome(module, self.seconds)
        finally:
            with self._lock:
                self._idle.append(server)

    def close(self) -> None:
        """Ends the processes."""
        with self._lock:
            for server in self._idle:
                server.end()
            self._idle.clear()

    def __enter__(self) -> Failure:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server:
    """A process that has imported what is needed, and forks another for each module."""

    def __init__(self, trial: Trial):
        self._folder = tempfile.TemporaryDirectory(prefix="xloom-reduce-")
        self._errors = Path(self._folder.name) / "errors"
        with self._errors.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "xloom.reduction.trial_server", json.dumps(asdict(trial))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )

    def outcome(self, module: Module, seconds: float) -> str:
        """Raises EvaluationError where the process has no answer."""
        path = Path(self._folder.name) / "module.hlo"
        path.write_text(module.to_text(print_large_constants=True), encoding="utf-8")
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        answer = b""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps({"path": str(path), "seconds": seconds}).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        if not answer:
            lines = self._errors.read_text(errors="replace").splitlines() or ["it says nothing"]
            raise EvaluationError(
                f"no process can try modules: {lines[-1]}",
                hint="it has ended as it began, or loaded what --load names: load that by itself",
            )
        said = json.loads(answer)
        if "error" in said:
            raise EvaluationError(said["error"], hint=said["hint"])
        return str(said["outcome"])

    def end(self) -> None:
        """Ends it, with what it has forked."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self._folder.cleanup()
