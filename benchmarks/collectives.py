"""Collectives between processes of this machine: against MPI's own, and against JAX's with Gloo on XLA:CPU.

python -m benchmarks.collectives [--processes 2] [--rounds 3] [--sizes 8,65536] [--operations psum]

Each side has processes of its own, one device in each, which are started in turns: a ratio is the median of those of
the rounds. With more processes than cores all sides wait for the scheduler. There is at least one float per process.

"In a program" is what one of many collectives takes that follow each other in one program, against as many calls of
MPI from native code; "a program each" has JAX's dispatch in it, which "nothing" shows by itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict

from benchmarks.collectives_side import NOTHING, OPERATIONS
from benchmarks.processes import said

SIDES = {
    "xloom": {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "1"},
    "mpi": {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "1"},
    "gloo": {"JAX_PLATFORMS": "cpu"},
}
WAYS = {"chained": "in a program", "alone": "a program each"}
SIZES = ",".join(str(8 << 3 * k) for k in range(8)) + f",{1 << 26}"

Times = dict[tuple[str, str, int], float]


def measure(side: str, processes: int, sizes: str, operations: str) -> Times:
    """Seconds by way, operation and bytes, as the first process saw them."""
    lines = said("benchmarks.collectives_side", side, processes, [operations, *sizes.split(",")], SIDES[side])
    rows = [line.split() for line in lines if line.startswith(tuple(WAYS))]  # Gloo talks too
    return {(way, name, int(size)): float(taken) for way, name, size, taken in rows}


def main() -> None:
    """Measures, and prints a line per operation and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default=SIZES, help="bytes, separated by commas")
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="names, separated by commas")
    options = parser.parse_args()
    rounds: dict[str, list[Times]] = defaultdict(list)
    for _ in range(options.rounds):
        for side in SIDES:
            rounds[side].append(measure(side, options.processes, options.sizes, options.operations))
    print(f"{options.processes} processes on {os.cpu_count()} cores\n")
    columns = "".join(f" {title}, µs | of MPI's | of Gloo's |" for title in WAYS.values())
    print(f"| operation | bytes |{columns}\n|---|---|{'---|' * 3 * len(WAYS)}")
    for name in options.operations.split(","):
        for size in map(int, options.sizes.split(",")):
            print(f"| {name} | {size} |", *(_cells(rounds, (way, name, size)) for way in WAYS))


def _cells(rounds: dict[str, list[Times]], key: tuple[str, str, int]) -> str:
    """The best time, and the medians of the ratios to the others'."""
    way, name, _ = key
    if name == NOTHING and way == "chained":
        return "- | - | - |"
    ours = [each[key] for each in rounds["xloom"]]
    ratios = []
    for side in ("mpi", "gloo"):
        if side == "mpi" and name == NOTHING:
            ratios.append("-")
            continue
        ratios.append(f"{statistics.median(a / b[key] for a, b in zip(ours, rounds[side], strict=True)):.2f}")
    return f"{min(ours) * 1e6:.1f} | {ratios[0]} | {ratios[1]} |"


if __name__ == "__main__":
    main()
