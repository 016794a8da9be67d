"""Training steps through both doors, against eager mode and inductor: the losses, the times and the compilations.

    python -m benchmarks.torch_training [mlp gpt resnet] [--steps 200] [--sides eager inductor xloom device]

`xloom` is torch.compile(backend="xloom"), of which loss and gradients are timed: the optimizer is eager mode's there.
Where the `device` takes part, whole steps are timed on all sides, until the loss is a number of the host's.

Each side trains its own copy of an example's model. Steps are alternated, so that what else the machine does meets all
sides, and a side's time is the median of its steps (and the least of them, which load does not touch). On a machine
with much else to do, `--clock cpu --threads 1` and XLOOM_NUM_THREADS=1 in the environment compare processor time.
"""

from __future__ import annotations

import argparse
import runpy
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

import xloom.torch
from xloom.torch.metrics import METRICS

EXAMPLES = Path(__file__).parent.parent / "examples"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
BACKENDS = {"inductor": "inductor", "xloom": "xloom"}
SIDES = ["eager", *BACKENDS, "device"]


class Side:
    """A model in training, and its losses and times."""

    def __init__(self, name: str, example: dict[str, Callable], clock: Callable[[], float], whole: bool):
        self.name = name
        self.clock = clock
        self.whole = whole
        model, inputs, targets = example["problem"]()
        place = xloom.torch.device() if name == "device" else torch.device("cpu")
        self.model, self.inputs, self.targets = model.to(place), inputs.to(place), targets.to(place)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)
        backend = BACKENDS.get(name)
        loss_of = example["loss_of"]
        self.loss_of = torch.compile(loss_of, backend=backend, dynamic=False) if backend else loss_of
        self.losses: list[float] = []
        self.times: list[float] = []
        self.programs: int | None = None
        """How many the device has compiled."""

    def step(self) -> None:
        """One step of training, all of which is timed, or only model and loss."""
        self.optimizer.zero_grad()
        start = self.clock()
        loss = self.loss_of(self.model, self.inputs, self.targets)
        loss.backward()
        if not self.whole:
            self.times.append(self.clock() - start)
        self.optimizer.step()
        self.losses.append(loss.item())
        if self.whole:
            self.times.append(self.clock() - start)


def measured(model: str, sides: list[str], steps: int, clock: Callable[[], float]) -> list[Side]:
    """Every side, trained by so many steps; times are those after the first ten."""
    example = runpy.run_path(str(EXAMPLES / f"train_{model}.py"))
    trained = [Side(name, example, clock, "device" in sides) for name in sides]
    before = METRICS.programs
    for _ in range(steps):
        for side in trained:
            side.step()
    for side in trained:
        del side.times[: min(10, steps // 2)]
        side.programs = METRICS.programs - before if side.name == "device" else None
    return trained


def main() -> None:
    """Prints a row a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["mlp", "gpt", "resnet"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sides", nargs="*", default=["eager", *BACKENDS], choices=SIDES)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch's threads")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for model in options.models:
        trained = measured(model, options.sides, options.steps, CLOCKS[options.clock])
        reference = trained[0]
        for side in trained:
            median, least = statistics.median(side.times), min(side.times)
            ratio = statistics.median(reference.times) / median, min(reference.times) / least
            apart = max(abs(a - b) for a, b in zip(side.losses, reference.losses, strict=True))
            print(
                f"{model:8} {side.name:10} median {1e3 * median:8.2f} ms ({ratio[0]:.2f}x)  "
                f"least {1e3 * least:8.2f} ms ({ratio[1]:.2f}x)  "
                f"loss {side.losses[0]:.4f} -> {side.losses[-1]:.4f}, at most {apart:.1e} apart"
                + ("" if side.programs is None else f", {side.programs} programs"),
                flush=True,
            )


if __name__ == "__main__":
    main()
