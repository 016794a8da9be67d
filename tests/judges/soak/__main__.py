"""Does everything in turn until the time is up, and reports what has grown, was lost, or was left behind.

python -m tests.judges.soak [--minutes 60] [--only training,processes] [--out soak.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.judges.soak.activities import ACTIVITIES
from tests.judges.soak.usage import Usage, adopting, descendants, growth, usage_of, working

_TURN = 10.0
"""Seconds that an activity has before the next one."""
_ROUND = 600.0
"""Seconds after which a round is lost, and its process ended."""
_GROWN = Usage(memory=8.0, kept=math.inf, files=0, threads=0, processes=0)
"""How much more the last third of a run may hold than the second. What is kept has a bound of its own."""
_SHORT = 9
"""Turns below which nothing is said of growth."""


class Worker:
    """The process of one activity."""

    def __init__(self, name: str, folder: Path):
        self.name = name
        self.done, self.rounds, self.seconds = 0, 0, 0.0
        self.wrong: list[str] = []
        self.usages: list[Usage] = []
        self._kept = 0
        environment = {**os.environ, "TMPDIR": str(folder), "XLOOM_CACHE_DIR": str(folder / "cache")}
        environment |= {"JAX_PLATFORMS": "cpu", "XLOOM_AS_CPU": "1"} if name == "training" else {}
        command = [sys.executable, "-m", "tests.judges.soak.activities", name]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def turn(self) -> None:
        """Rounds for some seconds, and then what the process holds."""
        assert self.process.stdin is not None and self.process.stdout is not None
        end = time.monotonic() + _TURN
        while time.monotonic() < end and self.process.poll() is None:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            late = threading.Timer(_ROUND, self.process.kill)
            late.start()
            answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"wrong": "the process ended"}')
            late.cancel()
            self.rounds += 1
            self.done += answer.get("done", 0)
            self.seconds += answer.get("seconds", 0.0)
            self._kept = answer.get("kept", 0)
            if "wrong" in answer:
                self.wrong.append(answer["wrong"])
        if self.process.poll() is None:
            self.usages.append(usage_of(self.process.pid, self._kept))

    def end(self) -> None:
        """Lets the process end by itself."""
        try:
            self.process.communicate(timeout=_ROUND)
            if self.process.returncode:
                self.wrong.append(f"exit status {self.process.returncode}")
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wrong.append("it did not end")

    def report(self) -> dict[str, Any]:
        """Its figures."""
        grown = [growth(values) for values in zip(*self.usages, strict=True)]
        is_long = len(self.usages) >= _SHORT
        leaks = [n for n, g, most in zip(Usage._fields, grown, _GROWN, strict=True) if g > most] if grown else []
        return {
            "done": self.done,
            "rounds": self.rounds,
            "seconds": round(self.seconds, 1),
            "first": self.usages[0]._asdict() if self.usages else None,
            "last": self.usages[-1]._asdict() if self.usages else None,
            "grown": dict(zip(Usage._fields, grown, strict=True)) if grown and is_long else None,
            "leaks": leaks if is_long else [],
            "wrong": self.wrong,
        }


def soak(names: list[str], minutes: float, folder: Path) -> dict[str, Any]:
    """Figures by activity, and what is left behind: processes, and files that are not machine code that is kept."""
    before = descendants(os.getpid())
    workers = [Worker(name, folder) for name in names]
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        for worker in workers:
            worker.turn()
            if time.monotonic() >= end:
                break
    for worker in workers:
        worker.end()
    kept = folder / "cache"
    files = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and kept not in p.parents]
    unfinished = [p.name for p in kept.rglob("*") if p.is_file() and "tmp" in p.name]
    return {
        "activities": {worker.name: worker.report() for worker in workers},
        "processes left": len(working(descendants(os.getpid()) - before)),
        "files left": files + unfinished,
        "bytes kept": sum(p.stat().st_size for p in kept.rglob("*") if p.is_file()),
    }


def failures(found: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    said = [f"{name}: {wrong}" for name, each in found["activities"].items() for wrong in each["wrong"]]
    said += [f"{name}: {leak} grow" for name, each in found["activities"].items() for leak in each["leaks"]]
    said += [f"{found['processes left']} processes are left"] if found["processes left"] else []
    return said + [f"{file} is left" for file in found["files left"]]


def main() -> int:
    """Soaks, and prints a line an activity; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", default="", help=f"some of {', '.join(ACTIVITIES)}, separated by commas")
    parser.add_argument("--out", type=Path, help="a file for all figures, as JSON")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [*ACTIVITIES]
    with tempfile.TemporaryDirectory() as folder, adopting():
        found = soak(names, options.minutes, Path(folder))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    for name, each in found["activities"].items():
        if each["last"] is None:
            continue
        first, last = Usage(**each["first"]), Usage(**each["last"])
        grown = f", {each['grown']['memory']:+.1f} in the last third" if each["grown"] else ""
        print(
            f"{name:14}{each['done']:8} done, {len(each['wrong'])} wrong; memory {first.memory:.0f} to "
            f"{last.memory:.0f} MiB{grown}, kept beside {first.kept:.0f} to {last.kept:.0f}; "
            f"files {first.files} to {last.files}, threads {first.threads} to {last.threads}, "
            f"processes {first.processes} to {last.processes}"
        )
    print(
        f"{found['processes left']} processes left, {len(found['files left'])} files; {found['bytes kept']} bytes kept"
    )
    wrong = failures(found)
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
