"""One model by several sides: each is compiled and its values compared with eager mode's, then all are timed."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.models.sides import SIDES, Run, listed
from benchmarks.models.zoo import MODELS, made
from benchmarks.timing import alternate, median_wall

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
_TOLERANCES = {"f32": 2e-3, "bf16": 0.2}
"""Of a value, in root mean squares of its array: networks add up what the order of sums changes."""


@dataclass
class Measured:
    """A side's figures: seconds, and its largest difference from eager mode in root mean squares of the result."""

    side: str
    run: float = 0.0
    least: float = 0.0
    """Of all turns, which other load does not touch."""
    first: float = 0.0
    """Until the first result is there: export, compilation, the first call."""
    apart: float = 0.0
    problem: str = ""


def _apart(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        a, b = a.double(), b.double()
        if a.shape != b.shape:
            raise ValueError(f"a result of {list(a.shape)} in place of {list(b.shape)}")
        error = float((a - b).abs().max() / b.square().mean().sqrt().clamp_min(1e-30))
        worst = max(worst, error) if error == error else float("inf")
    return worst


def measure(name: str, batch: int, dtype: str, sides: list[str], threads: int, repeats: int) -> list[dict[str, Any]]:
    """Figures of each side, those first that can run."""
    torch.set_num_threads(threads)
    model, kind = MODELS[name], DTYPES[dtype]
    module = made(model, kind)
    torch.manual_seed(1)
    inputs = tuple(x.to(kind) if x.is_floating_point() else x for x in model.inputs(batch))
    with torch.no_grad():
        expected = [y.float() for y in listed(module(*inputs))]
    found, runs = [Measured(side) for side in sides], {}
    for measured in found:
        start = time.perf_counter()
        try:
            run: Run = SIDES[measured.side](module, inputs, threads)
            results = run()
            measured.first = time.perf_counter() - start
            measured.apart = _apart(results, expected)
        except Exception as error:  # whatever a side says of a model that it does not take
            measured.problem = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
            continue
        if measured.apart > _TOLERANCES[dtype]:
            measured.problem = f"other values than eager mode: {measured.apart:.2g} of their size apart"
        runs[measured.side] = run
    blocks = alternate(*runs.values(), repeats=repeats) if runs else []
    times = {side: (median_wall(b), min(x.wall for x in b)) for side, b in zip(runs, blocks, strict=True)}
    for measured in found:
        measured.run, measured.least = times.get(measured.side, (0.0, 0.0))
    return [asdict(m) for m in found]
