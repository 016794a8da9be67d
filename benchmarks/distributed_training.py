"""The same training in 1, 2 and 4 processes of this machine: losses, and the time of a step, beside Gloo on the CPU.

    python -m benchmarks.distributed_training [--processes 1,2,4] [--steps 200] [--rounds 3] [--models mlp,transformer]

JAX has four devices in all, whatever the number of processes, so that the math is the same: `pjit` is given shardings
and finds what has to be exchanged, `shard_map` says so itself. PyTorch has a device in each process, and DDP. Sides are
started in turns; a ratio is the median of those of the rounds, of the median of a side's steps. With more processes
than cores all sides wait for the scheduler.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict
from typing import NamedTuple

from benchmarks.processes import said

DEVICES = 4
"""Of JAX, in all processes together."""
MODELS = ("mlp", "transformer")
DOORS = ("pjit", "shard_map", "ddp")


class Run(NamedTuple):
    """What one side said."""

    digest: str
    """Of the bits of all losses."""
    first: float
    last: float
    """Losses."""
    begin: float
    step: float
    """Seconds until the first loss was there, and of a step after it."""


def environment(side: str, door: str, processes: int) -> dict[str, str]:
    """Of the processes of one side."""
    if door == "ddp":
        return {"OMP_NUM_THREADS": "1", "XLOOM_NUM_THREADS": "1"} if processes > 1 else {}
    devices = DEVICES // processes
    if side == "gloo":
        return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    return {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": str(devices)}


def measure(side: str, door: str, model: str, processes: int, steps: int) -> Run:
    """Trains once."""
    module = "benchmarks.distributed_training_torch" if door == "ddp" else "benchmarks.distributed_training_jax"
    lines = said(module, side, processes, [door, model, str(steps)], environment(side, door, processes))
    digest, *numbers = next(line for line in lines if line.startswith("LOSSES")).split()[1:]
    return Run(digest, *map(float, numbers))


def main() -> None:
    """Measures, and prints a line per model, door and number of processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2,4", help="numbers, separated by commas")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--doors", default=",".join(DOORS), help="names, separated by commas")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.steps} steps, {os.cpu_count()} cores\n")
    print(
        "| model | door | processes | losses' bits | first and last | Gloo's | step, ms | ratio | to begin, s | ratio |"
    )
    print("|---" * 10 + "|")
    for model in options.models.split(","):
        for door in options.doors.split(","):
            for processes in map(int, options.processes.split(",")):
                rounds: dict[str, list[Run]] = defaultdict(list)
                for _ in range(options.rounds):
                    for side in ("xloom", "gloo"):
                        rounds[side].append(measure(side, door, model, processes, options.steps))
                print(row(model, door, processes, rounds), flush=True)


def row(model: str, door: str, processes: int, rounds: dict[str, list[Run]]) -> str:
    """A line of the table."""
    ours, theirs = rounds["xloom"], rounds["gloo"]
    digests = sorted({run.digest for run in ours})
    ratios = [
        statistics.median(getattr(mine, name) / getattr(other, name) for mine, other in zip(ours, theirs, strict=True))
        for name in ("step", "begin")
    ]
    step, begin = (statistics.median(getattr(run, name) for run in ours) for name in ("step", "begin"))
    cells = [
        *(model, door, processes, " ".join(digests)),
        *(f"{side[0].first:.6f} {side[0].last:.6f}" for side in (ours, theirs)),
        *(f"{step * 1e3:.2f}", f"{ratios[0]:.2f}", f"{begin:.1f}", f"{ratios[1]:.2f}"),
    ]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
