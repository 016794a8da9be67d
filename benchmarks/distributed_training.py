"""The same training in 1, 2 and 4 processes of this machine: are losses the same; the time of a step, beside Gloo's.

    python -m benchmarks.distributed_training [--processes 1,2,4] [--steps 200] [--rounds 1] [--out FILE]

JAX has four devices in all, whatever the number of processes, so that the math is the same, and losses must have the
same bits: `pjit` is given shardings and finds what has to be exchanged, `shard_map` says so itself. PyTorch has a
device in each process, so that parts of sums differ: losses must be within `CLOSE`. DDP and FSDP2 (`ddp`, `fsdp2`) cut
batches, tensor parallelism (`tp`) the weights. All must be within `CLOSE` of Gloo's on the CPU, too; 1 is returned if
any is not.

Sides are started in turns; a ratio is the median of those of the rounds, of the median of a side's steps. With more
processes than cores all sides wait for the scheduler. With --out, runs are kept there, and what is there does not run
again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.distributed_training_steps import MARK
from benchmarks.processes import said
from benchmarks.progress import progress_bar

DEVICES = 4
"""Of JAX, in all processes together."""
MODELS = ("mlp", "transformer")
JAX_DOORS = ("pjit", "shard_map")
DOORS = (*JAX_DOORS, "ddp", "fsdp2", "tp")
SIDES = ("xloom", "gloo")
CLOSE = 1e-5
"""By how much of itself a loss may differ where sums are formed in another order; 1e-7 is usual after 200 steps."""


class Case(NamedTuple):
    """What runs once."""

    model: str
    door: str
    processes: int
    side: str
    round: int


class Run(NamedTuple):
    """What came of it: the loss of each step, and the seconds that it took, the first with all compilation."""

    losses: list[float]
    seconds: list[float]

    @property
    def digest(self) -> str:
        """Of the bits of all losses."""
        return hashlib.sha256(np.array(self.losses, np.float32).tobytes()).hexdigest()[:8]

    @property
    def step(self) -> float:
        """The seconds of a usual step."""
        return statistics.median(self.seconds[1:])

    def far_from(self, other: Run) -> float:
        """The greatest difference of a loss, relative to the other's."""
        return max(abs(a - b) / abs(b) for a, b in zip(self.losses, other.losses, strict=True))


Runs = dict[Case, Run]


def environment(case: Case) -> dict[str, str]:
    """Of the processes of one side."""
    if case.door not in JAX_DOORS:
        return {"OMP_NUM_THREADS": "1", "XLOOM_NUM_THREADS": "1"} if case.processes > 1 else {}
    devices = DEVICES // case.processes
    if case.side == "gloo":
        return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    return {"JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": str(devices)}


def measure(case: Case, steps: int) -> Run:
    """Trains once."""
    module = f"benchmarks.distributed_training_{'jax' if case.door in JAX_DOORS else 'torch'}"
    lines = said(module, case.side, case.processes, [case.door, case.model, str(steps)], environment(case))
    return Run(**json.loads(next(line for line in lines if line.startswith(MARK)).removeprefix(MARK)))


def kept(path: Path | None, steps: int) -> Runs:
    """The runs of as many steps that a file has."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
    return {Case(*row["case"]): Run(**row["run"]) for row in rows if len(row["run"]["losses"]) == steps}


def complaints(case: Case, runs: Runs, processes: Sequence[int]) -> list[str]:
    """What is wrong with the losses of a run of xloom's."""
    ours, theirs, first = (
        runs[case],
        runs[case._replace(side="gloo")],
        runs[case._replace(processes=processes[0], round=0)],
    )
    found = []
    if case.door in JAX_DOORS and ours.digest != first.digest:
        found.append(f"losses have other bits than with {processes[0]}")
    if not ours.far_from(first) <= CLOSE:
        found.append(f"a loss is {ours.far_from(first):.1e} from that with {processes[0]}")
    if not ours.far_from(theirs) <= CLOSE:
        found.append(f"a loss is {ours.far_from(theirs):.1e} from Gloo's")
    return found


def row(cases: Sequence[Case], runs: Runs, first: int) -> str:
    """A line of the table, of all rounds of xloom's."""
    ours, theirs = [runs[case] for case in cases], [runs[case._replace(side="gloo")] for case in cases]
    model, door, processes, *_ = cases[0]
    alone = {side: runs[Case(model, door, first, side, 0)] for side in SIDES}
    begin, step = (
        statistics.median(mine / other for mine, other in zip(map(of, ours), map(of, theirs), strict=True))
        for of in (lambda run: run.seconds[0], lambda run: run.step)
    )
    cells = [
        *(model, door, processes, " ".join(sorted({run.digest for run in ours}))),
        f"{ours[0].losses[0]:.6f} {ours[0].losses[-1]:.6f}",
        *(f"{side[0].far_from(alone[name]):.1e}" for name, side in zip(SIDES, (ours, theirs), strict=True)),
        f"{ours[0].far_from(theirs[0]):.1e}",
        *(f"{statistics.median(run.step for run in ours) * 1e3:.2f}", f"{step:.2f}"),
        *(f"{statistics.median(run.seconds[0] for run in ours):.1f}", f"{begin:.2f}"),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Measures, and prints a line per model, door and number of processes, and what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2,4", help="numbers, separated by commas; the first is compared with")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--doors", default=",".join(DOORS), help="names, separated by commas")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep runs here, and go on from those that are")
    options = parser.parse_args()
    processes = [*map(int, options.processes.split(","))]
    groups = [
        [Case(model, door, count, "xloom", k) for k in range(options.rounds)]
        for model in options.models.split(",")
        for door in options.doors.split(",")
        for count in processes
    ]
    runs = kept(options.out, options.steps)
    wrong: list[str] = []
    print(f"{options.steps} steps, {os.cpu_count()} cores; differences are the greatest of any step\n")
    heads = ["model", "door", "processes", "losses' bits", "first and last", f"from {processes[0]}", "Gloo's"]
    heads += ["from Gloo's", "step, ms", "ratio", "to begin, s", "ratio"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    with progress_bar() as progress:
        task = progress.add_task("", total=2 * sum(map(len, groups)))
        for cases in groups:
            for case in (case._replace(side=side) for case in cases for side in SIDES):
                progress.update(task, description=" ".join(map(str, case[:4])))
                if case not in runs:
                    runs[case] = measure(case, options.steps)
                    if options.out:
                        with options.out.open("a") as file:
                            file.write(json.dumps({"case": case, "run": runs[case]._asdict()}) + "\n")
                progress.advance(task)
            print(row(cases, runs, processes[0]), flush=True)
            for case in cases:
                wrong += [
                    f"{case.model} {case.door} {case.processes}: {each}" for each in complaints(case, runs, processes)
                ]
    print(*wrong or ["all losses agree"], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
