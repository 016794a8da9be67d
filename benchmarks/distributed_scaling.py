"""How long processes take to begin, and how training in many of them would scale, from what messages here cost.

    python -m benchmarks.distributed_scaling [--start 2,4,8,16] [--latency US --bandwidth GBS] [--step MS]

The start is that of processes of this machine, until each has summed a number over all: measured.

Scaling is a model, for as many machines as there are processes. A message of n bytes takes `latency + n / bandwidth`:
these are measured between two processes of this machine by permutes in a program, or given, as those of a network. A
step of training computes for `step`, and sums its gradients as programs here do: from 64 KiB on each of p processes
sends each other one a part, sums its own, and sends that to each; smaller ones are sent whole. A process sends one
message after another, all at once in both directions, and nothing while it computes. With weak scaling the step of
each process stays as it is; with strong scaling it is cut in p.
"""

from __future__ import annotations

import argparse
import os
import statistics

from benchmarks.collectives import ENVIRONMENT, measure
from benchmarks.collectives_side import OURS
from benchmarks.processes import said
from xloom.passes.collective_expansion import LARGE

SIDES = {"xloom": ENVIRONMENT, "gloo": {"JAX_PLATFORMS": "cpu"}}
PROCESSES = (1, 2, 4, 8, 16, 32, 64)
_SMALL, _BIG = 8, 1 << 22
_PERMUTE = "permute"


def sum_seconds(processes: int, nbytes: float, latency: float, bandwidth: float) -> float:
    """Of a sum of so many bytes over all processes, by the model."""
    if nbytes < LARGE:
        return (processes - 1) * (latency + nbytes / bandwidth)
    return 2 * (processes - 1) * (latency + nbytes / processes / bandwidth)


def efficiency(processes: int, step: float, communication: float, *, strong: bool) -> float:
    """The share of a step that computes, where one process takes `step` seconds for its batch, or for the whole."""
    computes = step / processes if strong else step
    return computes / (computes + communication)


def message() -> tuple[float, float]:
    """The latency of a message between two processes of this machine, and the bandwidth, in seconds and bytes."""
    blocks = measure(2, f"{_SMALL},{_BIG}", _PERMUTE)
    small, big = (statistics.median(blocks["chained", _PERMUTE, size][OURS]) for size in (_SMALL, _BIG))
    return small, _BIG / (big - small)


def starts(counts: list[int], rounds: int) -> None:
    """Prints how long processes take to begin."""
    print(f"seconds until all of them have summed a number, on {os.cpu_count()} cores; medians of {rounds}\n")
    parts: list[str] = []
    for count in counts:
        cells = []
        for side, environment in SIDES.items():
            took = []
            for _ in range(rounds):
                lines = said("benchmarks.distributed_scaling_side", side, count, [], environment)
                took.append(dict(line.split() for line in lines if line.startswith("started.")))
            if not parts:
                parts = [name.removeprefix("started.") for name in took[0]]
                heads = [f"{name} {part}" for name in SIDES for part in parts]
                print(f"| processes | {' | '.join(heads)} |\n{'|---' * (1 + len(heads))}|")
            cells += [f"{statistics.median(float(each[f'started.{part}']) for each in took):.2f}" for part in parts]
        print(f"| {count} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measures, and prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", default="2,4,8,16", help="numbers of processes, separated by commas")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--latency", type=float, help="microseconds of a message; by default measured")
    parser.add_argument("--bandwidth", type=float, help="gigabytes a second")
    parser.add_argument("--step", default="10,100,1000", help="milliseconds that one process computes")
    parser.add_argument("--gradients", type=float, default=100.0, help="megabytes that are summed a step")
    options = parser.parse_args()
    if options.start:
        starts([*map(int, options.start.split(","))], options.rounds)
    latency, bandwidth = message() if None in (options.latency, options.bandwidth) else (0.0, 0.0)
    latency = latency if options.latency is None else options.latency * 1e-6
    bandwidth = bandwidth if options.bandwidth is None else options.bandwidth * 1e9
    print(f"\nlatency {latency * 1e6:.1f} us, bandwidth {bandwidth / 1e9:.2f} GB/s; {options.gradients:g} MB a step\n")
    steps = [float(each) / 1e3 for each in options.step.split(",")]
    heads = [f"{kind}, {step * 1e3:g} ms" for kind in ("weak", "strong") for step in steps]
    print(f"| processes | sum, ms | {' | '.join(heads)} |\n{'|---' * (2 + len(heads))}|")
    for count in PROCESSES:
        sums = sum_seconds(count, options.gradients * 1e6, latency, bandwidth)
        shares = [efficiency(count, step, sums, strong=strong) for strong in (False, True) for step in steps]
        print(f"| {count} | {sums * 1e3:.2f} | {' | '.join(f'{share:.1%}' for share in shares)} |")


if __name__ == "__main__":
    main()
