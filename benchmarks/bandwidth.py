"""What the programs that memory bounds reach of the machine's bandwidth, or else that arithmetic bounds them.

python -m benchmarks.bandwidth [PATTERN] writes bandwidth.json when it measured all, which the results page shows.

A share is of a triad's bandwidth, alternated with the program: the median of several processes, as the noise of a
machine with other guests lasts longer than one. "Arithmetic" is what part of the program's time it would take if all
its arguments and results were in the cache: the slope between two small parts of it. Near 100%, a faster memory would
not help.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from benchmarks.one_by_one import one_by_one
from benchmarks.programs import PROGRAMS, Program
from benchmarks.sides import WARM_UP, bytecode, compile_ours
from benchmarks.timing import alternate, median_wall, ratios
from xloom.cli.yardsticks import memory

_PROCESSES = 5
_REPEATS = 9
_CACHED_BYTES = 1 << 20
"""Of the larger part: fits the caches of two cores."""
_FILE = Path(__file__).parent / "bandwidth.json"


def measure(name: str) -> list[float]:
    """The share of the bandwidth, and of the time the arithmetic's; the latter NaN for what has no parts."""
    program = PROGRAMS[name]
    triad = memory()
    compile_ours(bytecode(WARM_UP), WARM_UP.make_arguments())
    parts = [_part(program, n * program.bytes_moved / _CACHED_BYTES) for n in (1, 2)]
    runs = [compile_ours(bytecode(p), p.make_arguments()).run for p in (program, *filter(None, parts))]
    best, whole, *small = alternate(triad.run, *runs, repeats=_REPEATS)
    reached = statistics.median(ratios(best, whole)) * program.bytes_moved / triad.amount
    if len(small) < 2:
        return [reached, float("nan")]
    more, less = (part.bytes_moved for part in parts if part)
    seconds = [(a.wall - b.wall) / (more - less) * program.bytes_moved for a, b in zip(*small, strict=True)]
    return [reached, statistics.median(seconds) / median_wall(whole)]


def _part(program: Program, divisor: float) -> Program | None:
    """A program on the first rows of its arguments; None where those are no arguments of it."""
    if divisor < 2:
        return None

    def cut(argument: Any, least_rank: int) -> Any:
        if len(argument.shape) < least_rank:
            return argument
        return replace(argument, shape=(max(1, round(argument.shape[0] / divisor)), *argument.shape[1:]))

    for least_rank in (1, 2):  # a vector beside a matrix may belong to its rows or its columns
        part = replace(program, arguments=jax.tree.map(lambda a, rank=least_rank: cut(a, rank), program.arguments))
        try:
            part.lower()
        except (TypeError, ValueError):
            continue
        return part
    return None


def rows(found: dict[str, list[list[float]]]) -> dict[str, tuple[float, float]]:
    """The medians of all processes."""
    return {n: (statistics.median(a for a, _ in s), statistics.median(b for _, b in s)) for n, s in found.items()}


def main(pattern: str) -> None:
    """A row a program, worst first."""
    names = [n for n, p in PROGRAMS.items() if p.bytes_moved and not p.flops and re.search(pattern, n)]
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    cases = [(name, str(k)) for k in range(_PROCESSES) for name in names]
    for (name, _), seconds, _ in one_by_one("benchmarks.bandwidth", cases):
        found[name].append(seconds)
    measured = rows({name: each for name, each in found.items() if each})
    for name, (reached, arithmetic) in sorted(measured.items(), key=lambda row: row[1][0]):
        print(f"{name:32} {reached:5.0%} of the bandwidth, arithmetic {arithmetic:5.0%} of the time")
    if not pattern:
        _FILE.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps({"seconds": measure(sys.argv[2])}))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "")
