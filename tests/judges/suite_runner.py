"""Runs samples of outside suites' tests in child processes: one that kills or hangs its process is counted, and the
others go on. Verdicts are kept in a folder, from which a later call goes on where an earlier one has stopped."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_POLL = 0.2
Verdicts = dict[str, dict[str, Any]]


class Child(NamedTuple):
    """How to start a process that lists or runs tests."""

    command: list[str]
    folder: Path
    environment: Mapping[str, str] = {}


class Runner:
    """The tests of a suite's files, and what is known of them."""

    def __init__(self, child_of: Callable[[str, str, str, Path], Child], out: Path, timeout: float):
        """`child_of` has a file's name, a side, the path of a list of tests or nothing, and where verdicts go."""
        self.child_of = child_of
        self.out = out.resolve()
        self.timeout = timeout

    def sample(self, file: str, count: int, side: str, seed: int = 0) -> list[str]:
        """Evenly spaced tests of a file, or all of them with 0; none of a file that does not load.

        Another seed takes others, as far from each other."""
        listing = self._kept(file, "list")
        if not listing.exists():
            self._start(file, None, listing, side).wait()
            if not listing.exists():
                print(f"{file} does not load: see {self.out / file}.{side}.log")
        ids = list(dict.fromkeys(row["id"] for row in _rows(listing)))
        if not count or count >= len(ids):
            return ids
        offset = random.Random(seed).random() if seed else 0
        return [ids[int((k + offset) * len(ids) / count)] for k in range(count)]

    def verdicts(self, file: str, side: str, ids: list[str]) -> Verdicts:
        """Runs those tests of a file that have no verdict yet."""
        kept = self._kept(file, side)
        while True:
            found = _verdicts(kept)
            left = [name for name in ids if found.get(name, {"verdict": "started"})["verdict"] == "started"]
            if not left:
                return {name: found[name] for name in ids}
            before = len(_rows(kept))
            ended = self._watch(self._start(file, left, kept, side), kept)
            rows = _rows(kept)
            started = [row["id"] for row in rows if row.get("verdict") == "started"]
            last = _verdicts(kept).get(started[-1]) if started and len(rows) > before else None
            if last is not None and last["verdict"] == "started":
                _append(kept, {"id": started[-1], "verdict": "crash", "message": ended})
            elif len(rows) == before:
                for name in left:
                    _append(kept, {"id": name, "verdict": "crash", "message": f"the file does not load: {ended}"})

    def _kept(self, file: str, what: str) -> Path:
        path = self.out / f"{file}.{what}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _start(self, file: str, ids: list[str] | None, kept: Path, side: str) -> subprocess.Popen[bytes]:
        chosen = self.out / f"{file}.{side}.ids.json"
        if ids is not None:
            chosen.write_text(json.dumps(ids))
        child = self.child_of(file, side, "" if ids is None else str(chosen), kept)
        with (self.out / f"{file}.{side}.log").open("ab") as log:
            environment = {**os.environ, **child.environment}
            return subprocess.Popen(child.command, cwd=child.folder, env=environment, stdout=log, stderr=log)

    def _watch(self, child: subprocess.Popen[bytes], kept: Path) -> str:
        """Waits for the end of a child, or of its patience; says how it ended."""
        size, since = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(_POLL)
            now = kept.stat().st_size if kept.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > self.timeout:
                child.kill()
                child.wait()
                return f"no end after {self.timeout:g} s"
        return f"exit status {child.returncode}"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _verdicts(path: Path) -> Verdicts:
    found: Verdicts = {}
    for row in _rows(path):
        # what fails in a test's last part, after it has passed, has failed
        if row["verdict"] not in ("pass", "unused") or found.get(row["id"], {}).get("verdict") == "started":
            found[row["id"]] = row
    return found


def _append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def concluded(table: Mapping[str, Counter[str]], line: Callable[[Counter[str]], str], path: Path | None) -> int:
    """Prints the counts of all files as `line` says them, writes those of each to `path`; 1 if any test crashed."""
    total = sum(table.values(), Counter[str]())
    print(f"all: {line(total)}")
    if path:
        path.write_text(json.dumps(table, indent=1))
    return int(total["crash"] > 0)


def first_line(message: str) -> str:
    """What a failure says first."""
    return message.strip().partition("\n")[0][:300]


def python(script: Path, *arguments: str) -> list[str]:
    """The command that runs a script with this Python."""
    return [sys.executable, str(script), *arguments]
