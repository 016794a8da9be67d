"""Runs cases in a child process, which may die or hang without taking the others with it."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from xloom.errors import UnsupportedError

Case = tuple[str, Callable[[], str]]  # a name, and what runs it: returns what is wrong, or an empty string

STATUSES = ("pass", "fail", "unsupported", "crash")


class Skipped(Exception):
    """The case cannot be put to anybody: its text does not parse, or it checks nothing."""


def run_cases(cases_of: str, items: Iterable[Any], timeout: float) -> Generator[dict[str, str], None, None]:
    """A verdict for each case of each item, as soon as there is one: `name`, `status`, `message`.

    `cases_of` is "module:function"; function(item) yields the cases, in the child. A case that kills the child is a
    crash, one that takes longer than `timeout` seconds a failure; the item goes on after it in a new child.
    """
    child = _Child(cases_of)
    try:
        for item in items:
            done = 0
            while True:
                count, ended = yield from child.run(item, done, timeout)
                done += count
                if count and not child.process.is_alive():
                    child = _Child(cases_of)
                if ended:
                    break
    finally:
        child.stop()


class _Child:
    def __init__(self, cases_of: str):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, cases_of), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, item: Any, skip: int, timeout: float) -> Generator[dict[str, str], None, tuple[int, bool]]:
        """The verdicts of the item's cases after the first `skip`, as they come; how many, and whether that was all."""
        count, running = 0, ""
        try:
            self.pipe.send((item, skip))
            while self.pipe.poll(timeout if running else None):
                kind, payload = self.pipe.recv()
                if kind == "end":
                    return count, True
                if kind == "start":
                    running = payload
                else:
                    count += 1
                    yield {"name": running, **payload}
            self.stop()
            yield {"name": running, "status": "fail", "message": f"no answer in {timeout:.0f} s"}
        except (EOFError, ConnectionError):
            self.process.join()
            message = f"the process died: exit status {self.process.exitcode}"
            yield {"name": running or str(item), "status": "crash", "message": message}
            # it died before any case, and would do so again
            return count + 1, not running
        return count + 1, False

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, cases_of: str) -> None:
    module, _, function = cases_of.partition(":")
    source = getattr(import_module(module), function)
    while True:
        item, skip = pipe.recv()
        for number, (name, run) in enumerate(source(item)):
            if number >= skip:
                pipe.send(("start", name))
                pipe.send(("verdict", _verdict(run)))
        pipe.send(("end", None))


def _verdict(run: Callable[[], str]) -> dict[str, str]:
    try:
        message = run()
    except Skipped as error:
        return {"status": "skipped", "message": str(error)}
    except UnsupportedError as error:
        return {"status": "unsupported", "message": str(error)}
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    return {"status": "fail" if message else "pass", "message": message}


def report(title: str, verdicts: list[dict[str, str]], json_path: str | None, show: int) -> None:
    """Prints the first failures and one line of counts, and writes all verdicts. Exits with 1 if any case failed."""
    counts = Counter(v["status"] for v in verdicts)
    wrong = [v for v in verdicts if v["status"] in ("fail", "unsupported", "crash")]
    for verdict in wrong[:show]:
        message = verdict["message"].partition("\n")[0]
        print(f"{verdict['status']} {verdict['name']}: {message[:300]}")
    if json_path:
        Path(json_path).write_text(json.dumps(verdicts, indent=1))
    skipped = f"; {counts['skipped']} not put" if counts["skipped"] else ""
    print(f"{title}: {', '.join(f'{counts[s]} {s}' for s in STATUSES)}{skipped}")
    sys.exit(1 if wrong else 0)
