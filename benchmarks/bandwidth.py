"""What the programs that memory bounds reach of the machine's bandwidth, or else that arithmetic bounds them.

python -m benchmarks.bandwidth [PATTERN] writes bandwidth.json when it measured all, which the results page shows.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import jax

from benchmarks.one_by_one import one_by_one
from benchmarks.programs import PROGRAMS, Program
from benchmarks.sides import WARM_UP, bytecode, compile_ours
from benchmarks.timing import alternate, median_wall, ratios
from xloom.roofline.yardsticks import memory

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
    more, less = (part.bytes_moved if part else 0 for part in parts)
    if more <= less:
        return [reached, float("nan")]
    seconds = [(a.wall - b.wall) / (more - less) * program.bytes_moved for a, b in zip(*small, strict=True)]
    return [reached, statistics.median(seconds) / median_wall(whole)]


def _part(program: Program, divisor: float) -> Program | None:
    """A program on the first rows of its arguments; None where those are no arguments of it, or nearly all."""
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


def main(pattern: str) -> None:
    """A row a program, worst first. What comes to all of the bandwidth at once is measured once."""
    names = [n for n, p in PROGRAMS.items() if p.bytes_moved and not p.flops and re.search(pattern, n)]
    found: dict[str, list[list[float]]] = {}
    for number in range(_PROCESSES):
        left = [n for n in names if number == 0 or (n in found and found[n][0][0] < 1)]
        for (name, _), shares, _ in one_by_one("benchmarks.bandwidth", [(name, str(number)) for name in left]):
            found.setdefault(name, []).append(shares)
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    measured = dict(sorted(medians.items(), key=lambda row: row[1][0]))
    for name, (reached, arithmetic) in measured.items():
        print(f"{name:32} {reached:5.0%} of the bandwidth, arithmetic {arithmetic:5.0%} of the time")
    if not pattern:
        _FILE.write_text(json.dumps(measured, indent=1) + "\n")


def section() -> list[str]:
    """What the results page says, in Markdown: the programs that do not come to all of the bandwidth."""
    if not _FILE.exists():
        return []
    measured = json.loads(_FILE.read_text())
    least = {name: row for name, row in measured.items() if row[0] < 1}
    return [
        "",
        "## Memory or arithmetic",
        "",
        f"Of {len(measured)} programs that memory should bound, {len(measured) - len(least)} come to all of a triad's",
        "bandwidth; these are the others: the median of five processes, as the noise of a machine with other guests",
        "lasts longer than one. The last column is what part of the time the program would take if all its arrays were",
        "in the cache, from the slope between two small parts of it: near 100%, arithmetic bounds it, and a faster",
        "memory would not help. `make bench-bandwidth` makes it.",
        "",
        "| program | of the bandwidth | arithmetic, of the time |",
        "|---|--:|--:|",
        *(
            f"| {name} | {reached:.0%} | {'' if isnan(part) else f'{part:.0%}'} |"
            for name, (reached, part) in least.items()
        ),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps({"figures": measure(sys.argv[2])}))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "")
