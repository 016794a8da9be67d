"""Collectives between processes of this machine: against MPI's own, and against JAX's with Gloo on XLA:CPU.

python -m benchmarks.collectives [--processes 2] [--rounds 3] [--sizes 8,65536]

Each side has processes of its own, one device in each, which are started in turns: a ratio is the median of those of
the rounds. With more processes than cores all sides wait for the scheduler. There is at least one float per process.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict

from benchmarks.collectives_side import OPERATIONS
from benchmarks.processes import said

SIDES = {
    "xloom": {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "1"},
    "mpi": {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "1"},
    "gloo": {"JAX_PLATFORMS": "cpu"},
}
SIZES = ",".join(str(8 << 3 * k) for k in range(8)) + f",{1 << 26}"

Times = dict[tuple[str, int], float]


def measure(side: str, processes: int, sizes: str) -> Times:
    """Seconds by operation and bytes, as the first process saw them."""
    lines = said("benchmarks.collectives_side", side, processes, sizes.split(","), SIDES[side])
    rows = [line.split() for line in lines if line.startswith(OPERATIONS)]  # Gloo talks too
    return {(name, int(size)): float(taken) for name, size, taken in rows}


def main() -> None:
    """Measures, and prints a line per operation and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default=SIZES, help="bytes, separated by commas")
    options = parser.parse_args()
    rounds: dict[str, list[Times]] = defaultdict(list)
    for _ in range(options.rounds):
        for side in SIDES:
            rounds[side].append(measure(side, options.processes, options.sizes))
    print(f"{options.processes} processes on {os.cpu_count()} cores\n")
    print("| operation | bytes | xloom, µs | of MPI's | of Gloo's |\n|---|---|---|---|---|")
    for key in rounds["xloom"][0]:
        ours = [each[key] for each in rounds["xloom"]]
        of = {
            side: statistics.median(mine / each[key] for mine, each in zip(ours, rounds[side], strict=True))
            for side in ("mpi", "gloo")
        }
        print(f"| {key[0]} | {key[1]} | {min(ours) * 1e6:.1f} | {of['mpi']:.2f} | {of['gloo']:.2f} |")


if __name__ == "__main__":
    main()
