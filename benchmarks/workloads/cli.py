"""Whole workloads with JAX's libraries: xloom in the place of JAX's CPU against jaxlib's own.

    make bench-workloads                        all of them
    make bench-workloads ONLY=nuts,lbfgs ROUNDS=5

A round starts a process of each side, with nothing cached, one after the other, in turns which is first; then they call
in turns while the other one waits. `first` is the first call, as users wait for it: tracing, compilation and the run;
`prepare` is what comes before it, data and what libraries do then. Ratios are jaxlib's time over xloom's, the median of
rounds, so that above 1 xloom is faster. Results are compared within what the workload says of itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.agreement import difference
from benchmarks.figures import duration, factor
from benchmarks.progress import progress_bar
from benchmarks.result import geometric_mean
from benchmarks.workloads import programs

_SIDES = {"jaxlib": "0", "xloom": "1"}
_ROOT = Path(__file__).parents[2]

Times = dict[str, float]


@dataclass
class Side:
    """A process that runs a workload."""

    name: str
    process: subprocess.Popen[str]
    begun: Times = field(default_factory=dict)
    calls: list[float] = field(default_factory=list)

    def said(self) -> dict[str, Any]:
        """Its next line. Raises SystemExit when it has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"the process of {self.name} ended with status {self.process.wait()}")

    def call(self) -> None:
        """Has it call once more."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.calls.append(self.said()["seconds"])

    def results(self) -> list[np.ndarray]:
        """Those of its last call, with which it ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        found = [np.asarray(each) for each in self.said()["results"]]
        self.process.wait()
        return found


def started(workload: str, side: str, cache: str) -> Side:
    """A side that has called once."""
    environment = {**os.environ, "XLOOM_AS_CPU": _SIDES[side], "JAX_PLATFORMS": "cpu", "XLOOM_CACHE_DIR": cache}
    command = [sys.executable, "-m", "benchmarks.workloads.child", workload]
    pipe = subprocess.PIPE
    found = Side(side, subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT, env=environment))
    found.begun = found.said()
    return found


def round_of(workload: str, order: Sequence[str], calls: int) -> tuple[dict[str, Times], str | None]:
    """Seconds of each side, and how their results differ."""
    with TemporaryDirectory() as cache:
        sides = [started(workload, side, cache) for side in order]
        try:
            for _ in range(calls):
                for side in sides:
                    side.call()
            results = {side.name: side.results() for side in sides}
        finally:
            for side in sides:
                side.process.kill()
    times = {s.name: {k: s.begun[k] for k in ("prepare", "first")} | {"call": min(s.calls)} for s in sides}
    tolerance = import_module(f"{programs.__name__}.{workload}").TOLERANCE
    return times, difference(results["xloom"], results["jaxlib"], tolerance)


def main(arguments: Sequence[str] | None = None) -> None:
    """A row for each workload; then the geometric means."""
    names = sorted(module.name for module in iter_modules(programs.__path__))
    options = _options(arguments, names)
    chosen = options.only.split(",") if options.only else names
    for name in chosen:
        if name not in names:
            raise SystemExit(f"no workload {name!r}: there are {', '.join(names)}")
    kept: dict[str, dict[str, float]] = {}
    with progress_bar() as progress:
        task = progress.add_task("", total=len(chosen))
        for line in (
            "| workload | prepare | first | call | prepare, jaxlib's over ours | first | call |",
            "|---" * 7 + "|",
        ):
            progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
        for name in chosen:
            progress.update(task, description=name)
            orders = [list(_SIDES), list(reversed(_SIDES))]
            rounds, differ = zip(
                *(round_of(name, orders[k % 2], options.calls) for k in range(options.rounds)), strict=True
            )
            kept[name] = {
                part: statistics.median(r["jaxlib"][part] / r["xloom"][part] for r in rounds)
                for part in ("prepare", "first", "call")
            }
            ours = [duration(statistics.median(r["xloom"][p] for r in rounds)) for p in ("prepare", "first", "call")]
            row = " | ".join([name, *ours, *map(factor, kept[name].values())])
            progress.console.print(f"| {row} |", markup=False, highlight=False, soft_wrap=True)
            for text in filter(None, differ):
                progress.console.print(f"{name} differs: {text}", markup=False, highlight=False, soft_wrap=True)
            progress.advance(task)
    for part in ("prepare", "first", "call"):
        ratios = [each[part] for each in kept.values()]
        print(f"{part}: {factor(geometric_mean(ratios))} in the geometric mean, {factor(min(ratios))} at least")


def _options(arguments: Sequence[str] | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workloads", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"names with commas between, of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--calls", type=int, default=3, help="turns of each process after its first call")
    return parser.parse_args(arguments)
