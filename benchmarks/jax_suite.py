"""JAX's own benchmarks (its folder `benchmarks`), with xloom as JAX's CPU and with jaxlib's, of eight devices.

python -m benchmarks.jax_suite CHECKOUT [--filter PATTERN] [--seconds 0.05] [--rounds 3] [--out FILE]

CHECKOUT is one of github.com/jax-ml/jax at the version that is installed, of which nothing is changed. Each side runs a
file in a process of its own, the sides in turn; what does not apply, or a side cannot do, is told and left out.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

from benchmarks import google_benchmark_api
from benchmarks.figures import duration, factor
from benchmarks.google_benchmark_api import Skipped, State
from benchmarks.result import geometric_mean

_FILES = ("api", "linalg", "math", "random", "shape_poly", "sparse")
_LIMIT = 900
"""Seconds of a file in one process: jaxlib's devices can wait for each other forever."""
_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
_SIDES: dict[str, dict[str, str]] = {"jaxlib": {}, "xloom": {"XLOOM_AS_CPU": "1"}}

Times = dict[str, float]
"""Seconds an iteration, by benchmark."""


def times_of(file: str, pattern: str, seconds: float) -> dict[str, Any]:
    """Seconds of each benchmark of a file, as JAX has it in this process; or a text, why there are none."""
    registered: dict[str, Any] = {}
    sys.modules["google_benchmark"] = google_benchmark_api.module(registered)
    runpy.run_path(file, run_name="benchmarks_of_jax")
    found: dict[str, Any] = {}
    for name, (function, rows) in registered.items():
        for arguments in rows:
            label = "/".join([name, *map(str, arguments)])
            if not re.search(pattern, label):
                continue
            state = State(arguments, seconds)
            try:
                function(state)
                found[label] = state.each
            except Skipped as reason:
                found[label] = str(reason)
            except Exception as error:
                found[label] = f"{type(error).__name__}: {error}".splitlines()[0]
    return found


def _in_a_process(side: str, file: Path, pattern: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.jax_suite", "--side", str(file)]
    command += ["--filter", pattern, "--seconds", str(seconds)]
    environment = {**os.environ, **_DEVICES, **_SIDES[side]}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        click.echo(f"{side}: {file.name} did not end in {_LIMIT} s", err=True)
        return {}
    if done.returncode:
        click.echo(f"{side}: {file.name} ended with {done.returncode}: {done.stderr[-300:]}", err=True)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def _rows(file: Path, pattern: str, seconds: float, rounds: int) -> dict[str, tuple[float, float, float]]:
    """Seconds of jaxlib and of xloom, and the median of the rounds' ratios, by benchmark."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        for side in _SIDES:
            for label, time in _in_a_process(side, file, pattern, seconds).items():
                if isinstance(time, float):
                    found[label][side].append(time)
                elif not number:
                    click.echo(f"{side}: {label}: {time[:120]}", err=True)
    rows = {}
    for label, times in found.items():
        if times["jaxlib"] and times["xloom"]:
            ratios = [a / b for a, b in zip(times["jaxlib"], times["xloom"], strict=False)]
            medians = [statistics.median(times[side]) for side in _SIDES]
            rows[label] = medians[0], medians[1], statistics.median(ratios)
    return rows


@click.command(help=__doc__)
@click.argument("checkout", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--filter", "pattern", default="", help="Only benchmarks whose names have this regular expression.")
@click.option("--seconds", default=0.05, help="How long a benchmark goes on in a round.")
@click.option("--rounds", default=3, help="Of which the median counts.")
@click.option("--out", type=click.Path(path_type=Path), help="JSON of all times.")
@click.option("--side", type=click.Path(exists=True, path_type=Path), hidden=True)
def main(checkout: Path | None, pattern: str, seconds: float, rounds: int, out: Path | None, side: Path | None) -> None:
    """See the module."""
    if side is not None:
        print(json.dumps(times_of(str(side), pattern, seconds)))
        return
    if checkout is None:
        raise click.UsageError("give a checkout of github.com/jax-ml/jax, at the version of JAX that is installed")
    every: dict[str, tuple[float, float, float]] = {}
    for name in _FILES:
        rows = _rows(checkout / "benchmarks" / f"{name}_benchmark.py", pattern, seconds, rounds)
        for label, (theirs, ours, ratio) in sorted(rows.items(), key=lambda row: row[1][2]):
            click.echo(f"{factor(ratio):>8}  jaxlib {duration(theirs):>9}  xloom {duration(ours):>9}  {label}")
        every |= rows
    if every:
        ratios = [ratio for _, _, ratio in every.values()]
        slower = sum(ratio < 0.9 for ratio in ratios)
        click.echo(f"{len(ratios)} benchmarks: {factor(geometric_mean(ratios))}; {slower} below 0.9")
    if out is not None:
        out.write_text(json.dumps(every, indent=1))


if __name__ == "__main__":
    main()
