"""Compiled graphs that write their arguments, as optimizers and caches do: xloom and inductor, alternated.

    python -m benchmarks.torch_written [--filter adam] [--repeats 11]

Each side has parameters and caches of its own, and one process has both.
"""

from __future__ import annotations

import argparse
import re
import statistics
import warnings
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.figures import duration, factor
from benchmarks.result import geometric_mean
from benchmarks.timing import Run, alternate, median_wall, ratios

_BACKENDS = ("inductor", "xloom")
_SIZES = [(512, 512)] * 6 + [(2048, 512), (512, 2048)] + [(512,)] * 40
"""Of the parameters of a block of a transformer: 4 million numbers."""


def _optimizer(make: Callable[..., torch.optim.Optimizer]) -> Callable[[str], Run]:
    def prepare(backend: str) -> Run:
        parameters = [torch.nn.Parameter(torch.ones(size)) for size in _SIZES]
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 1e-3)
        optimizer = make(parameters)
        optimizer.step()  # makes its state
        return torch.compile(optimizer.step, backend=backend)

    return prepare


def _cache(length: int, kept: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]) -> Callable[[str], Run]:
    """A token's attention to a cache of keys and values, which it is put in."""

    def attend(keys, values, key, value, query, at):
        kept(keys, at, key)
        kept(values, at, value)
        scores = query @ keys.transpose(-1, -2) / 8
        return scores.masked_fill(torch.arange(length) > at, float("-inf")).softmax(-1) @ values

    def prepare(backend: str) -> Run:
        keys, values = torch.zeros(2, 1, 8, length, 64)
        key, value, query = torch.ones(3, 1, 8, 1, 64)
        compiled = torch.compile(attend, backend=backend, fullgraph=True)
        return torch.no_grad()(partial(compiled, keys, values, key, value, query, torch.tensor([length // 2])))

    return prepare


def _put(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> None:
    cache[:, :, at] = new


def _average(backend: str) -> Run:
    """An exponential moving average of weights."""
    averages, weights = ([torch.ones(size) for size in _SIZES] for _ in range(2))

    def update(averages, weights):
        for average, weight in zip(averages, weights, strict=True):
            average.lerp_(weight, 0.01)

    return torch.no_grad()(partial(torch.compile(update, backend=backend, fullgraph=True), averages, weights))


PROGRAMS: dict[str, Callable[[str], Run]] = {
    "sgd": _optimizer(partial(torch.optim.SGD, lr=1e-3, momentum=0.9)),
    "adamw": _optimizer(partial(torch.optim.AdamW, lr=1e-3)),
    "rmsprop": _optimizer(partial(torch.optim.RMSprop, lr=1e-3)),
    "average": _average,
    "cache-copy": _cache(2048, lambda cache, at, new: cache.index_copy_(2, at, new)),
    "cache-put": _cache(512, _put),
}


def main() -> None:
    """The command's entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="regular expression of programs' names")
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: list[float] = []
    for name, prepare in PROGRAMS.items():
        if re.search(options.filter, name):
            torch._dynamo.reset()
            theirs, ours = alternate(*map(prepare, _BACKENDS), repeats=options.repeats)
            found.append(statistics.median(ratios(theirs, ours)))
            times = f"inductor {duration(median_wall(theirs)):>8}, xloom {duration(median_wall(ours)):>8}"
            print(f"{name:12} {times}, ratio {factor(found[-1])}", flush=True)
    if found:
        print(f"{factor(geometric_mean(found))} in the geometric mean of {len(found)}")


if __name__ == "__main__":
    main()
