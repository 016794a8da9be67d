"""Collectives between processes of this machine: against MPI's own, and against JAX's with Gloo on XLA:CPU.

python -m benchmarks.collectives [--processes 2] [--pairs 15] [--sizes 8,65536] [--operations psum] [--against mpi,gloo]

All sides are in the same processes, one device of each in every one, and take turns by blocks of calls, which all
processes begin together: a ratio is the median of those of neighbours. With more processes than cores all sides wait
for the scheduler. There is at least one float per process.

"In a program" is what one of many collectives takes that follow each other in one program, against as many calls of
MPI from native code; "a program each" has JAX's dispatch in it, which "nothing" shows by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics

from benchmarks.collectives_side import OPERATIONS, OURS
from benchmarks.processes import said

OTHERS = {"mpi": "MPI", "gloo": "Gloo"}
WAYS = {"chained": "in a program", "alone": "a program each"}
SIZES = ",".join(str(8 << 3 * k) for k in range(8)) + f",{1 << 26}"
ENVIRONMENT = {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "1"}

Blocks = dict[str, list[float]]
"""Seconds of a call in each block, by side; who stands at the same place are neighbours."""


def measure(
    processes: int, sizes: str, operations: str, against: str = "", pairs: int = 15
) -> dict[tuple[str, str, int], Blocks]:
    """Blocks by way, operation and bytes, as the first process saw them."""
    arguments = [str(pairs), ",".join([OURS, *filter(None, against.split(","))]), operations, *sizes.split(",")]
    lines = said("benchmarks.collectives_side", "all", processes, arguments, ENVIRONMENT)
    rows = [line.split(maxsplit=3) for line in lines if line.startswith(tuple(WAYS))]  # Gloo talks too
    return {(way, name, int(size)): json.loads(blocks) for way, name, size, blocks in rows}


def main() -> None:
    """Measures, and prints a line per operation and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=15, help="blocks of each side")
    parser.add_argument("--sizes", default=SIZES, help="bytes, separated by commas")
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="names, separated by commas")
    parser.add_argument("--against", default=",".join(OTHERS), help="sides, separated by commas")
    options = parser.parse_args()
    others = options.against.split(",")
    print(f"{options.processes} processes on {os.cpu_count()} cores\n")
    heads = [each for title in WAYS.values() for each in (f"{title}, µs", *(f"of {OTHERS[k]}'s" for k in others))]
    print(f"| operation | bytes | {' | '.join(heads)} |\n{'|---' * (2 + len(heads))}|", flush=True)
    for name in options.operations.split(","):
        found = measure(options.processes, options.sizes, name, options.against, options.pairs)
        for size in map(int, options.sizes.split(",")):
            cells = [cell for way in WAYS for cell in _cells(found.get((way, name, size), {}), others)]
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


def _cells(blocks: Blocks, others: list[str]) -> list[str]:
    """The median, and those of the ratios to the others' with the quarters on either side."""
    if not blocks:
        return ["-"] * (1 + len(others))
    cells = [f"{statistics.median(blocks[OURS]) * 1e6:.1f}"]
    for side in others:
        if side not in blocks:
            cells.append("-")
            continue
        ratios = [a / b for a, b in zip(blocks[OURS], blocks[side], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        cells.append(f"{middle:.2f} ({low:.2f}–{high:.2f})")
    return cells


if __name__ == "__main__":
    main()
