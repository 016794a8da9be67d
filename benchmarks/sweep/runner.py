"""Measures cases, a family in a child process; a crash costs one case, and the rest goes on in another process."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from tempfile import TemporaryDirectory

from benchmarks.child import ChildError, run_child
from benchmarks.result import Result
from benchmarks.sweep.case import Case

_CASE_SECONDS = 60
_START_SECONDS = 60.0  # of a child, on a machine that is busy


def sweep(cases: list[Case], repeats: int, begin: Callable[[str], None], record: Callable[[Result], None]) -> None:
    """`begin` hears what is measured next, `record` each result."""
    with TemporaryDirectory() as cache:  # kernels that cases share are compiled once
        ordered = sorted(cases, key=lambda case: (case.family, case.wide))
        for (_, wide), group in groupby(ordered, key=lambda case: (case.family, case.wide)):
            names = [case.name for case in group]
            while names:
                names = _measure_some(names, wide, repeats, cache, begin, record)


def _measure_some(
    names: list[str],
    wide: bool,
    repeats: int,
    cache: str,
    begin: Callable[[str], None],
    record: Callable[[Result], None],
) -> list[str]:
    """The names that are left after one process: none, or those that come after the one that ended it."""
    left = list(names)
    running = ""

    def line(data: dict) -> None:
        nonlocal running
        if "begins" in data:
            running = data["begins"]
            begin(running)
        else:
            left.remove(running)
            running = ""
            record(Result.from_json(data["result"]))

    arguments = ["benchmarks.sweep.child", str(wide), str(repeats), str(_CASE_SECONDS), *names]
    try:
        run_child(arguments, cache, _START_SECONDS + _CASE_SECONDS * len(names), line)
    except ChildError as error:
        if running:
            left.remove(running)
            record(Result(running, "failed", str(error)))
        elif len(left) == len(names):
            raise  # it never comes so far as to measure anything
    return left
