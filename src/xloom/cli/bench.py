"""xloom bench."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from xloom.cli.alternation import Side, alternated
from xloom.cli.durations import duration
from xloom.cli.on_gpu import TimedOnGpu
from xloom.cli.profile_table import profile_table
from xloom.cli.program_input import load_code, load_option, program_argument, read_program
from xloom.errors import UnsupportedError
from xloom.hlo.donation import donated_parameters
from xloom.interpreter.values import random_argument
from xloom.process_traces import check_writable
from xloom.roofline.counters import Counters
from xloom.roofline.kernel_times import kernel_times
from xloom.roofline.limits import Gauge
from xloom.roofline.repeatable import Repeatable

_COUNTED_SECONDS = 0.1
_FILE_WIDTH = 160
"""Columns where no terminal says how wide it is."""


@click.command()
@program_argument
@click.option(
    "--on",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="This machine's processor, or its first GPU; arguments are in its memory.",
)
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Blocks of runs to measure.")
@click.option(
    "--against",
    type=click.Choice(["jaxlib"]),
    help="Measure XLA:CPU too (needs the extra `jax`): blocks of runs alternate, the ratio is that of neighbours.",
)
@click.option(
    "--profile", is_flag=True, help="A table of kernels: what each computes, for which line, and what limits it."
)
@click.option("--trace", "path", type=click.Path(dir_okay=False), help="Write the profiled runs for ui.perfetto.dev.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Kernels that the table shows.")
@click.option(
    "--counters", is_flag=True, help="The processor's counters of a run, on Linux: instructions a cycle, cache misses."
)
@load_option
def bench(
    file: str,
    on: str,
    repeats: int,
    against: str | None,
    profile: bool,
    path: str | None,
    top: int,
    counters: bool,
    libraries: tuple[str, ...],
) -> None:
    """Measure a program: compile time, time of a run, and where it goes.

    Arguments are random. Times are medians of blocks of runs. A program that takes the memory of its arguments gets
    copies in each run, which are made outside the time.

    \b
      xloom bench model.hlo
      xloom bench model.hlo --against jaxlib       who is faster?
      xloom bench model.hlo --profile              which kernels take long, and could they be faster?
      xloom bench model.hlo --counters             does it wait for memory?
      xloom bench model.hlo --on cuda              how fast is the first GPU?

    What limits a kernel is told by what it moves and computes in its time, next to what the machine can do, which is
    measured between the runs. docs/profiling.md explains the words.
    """
    if on == "cuda" and (profile or path or counters):
        raise click.UsageError("--profile, --trace and --counters are of the processor: leave them out, or --on cuda")
    if path:
        check_writable(Path(path))
    load_code(libraries)
    module = read_program(file)
    generator = np.random.default_rng(0)
    arguments = [random_argument(p.shape, generator) for p in module.entry.parameters]
    start = time.perf_counter()
    ours = TimedOnGpu(module, arguments) if on == "cuda" else Repeatable.native(module, arguments)
    compile_seconds = time.perf_counter() - start
    sides: list[Side] = [ours]
    if against:
        from xloom.stablehlo.reference import compiled_by_xla_cpu

        sides.append(compiled_by_xla_cpu(module, arguments))
    times = alternated(sides, repeats, copies=on == "cpu" and bool(donated_parameters(module)))
    width = None if sys.stdout.isatty() else _FILE_WIDTH
    console = Console(highlight=False, soft_wrap=True, width=width)
    console.print(f"{module.name}: {sum(1 for _ in module.instructions)} instructions")
    console.print(f"compile  {duration(compile_seconds)} (from the cache on disk if it was compiled before)")
    console.print(
        f"run      {duration(statistics.median(times[0]))}  "
        f"between {duration(min(times[0]))} and {duration(max(times[0]))}"
    )
    console.print(f"memory   {ours.program.memory.peak_bytes / 2**20:.2f} MiB at most")
    if against:
        ratio = statistics.median(theirs / ours for ours, theirs in zip(times[0], times[1], strict=True))
        console.print(f"XLA:CPU  {duration(statistics.median(times[1]))}  {ratio:.2f} times ours")
    if counters and isinstance(ours, Repeatable):
        for line in _counted(ours, statistics.median(times[0])):
            console.print(line)
    if profile or path:
        gauge = Gauge()
        kernels = kernel_times(module, arguments, repeats, path, gauge)
        console.print(profile_table(kernels, gauge.limits, top))


def _counted(run: Repeatable, seconds: float) -> Sequence[str]:
    """The processor's counters a run, of all threads together; or why there are none."""
    count = max(1, round(_COUNTED_SECONDS / max(seconds, 1e-7)))
    try:
        with Counters() as counters:
            for _ in range(min(count, 1000)):
                given: Any = run.fresh_arguments()
                with counters.counting():
                    run(given)
            found = {name: value / min(count, 1000) for name, value in counters.read().items()}
    except UnsupportedError as error:
        return [f"counters {error.message}", f"         {error.hint}"]
    lines = [f"counters {', '.join(f'{value:.3g} {name}' for name, value in found.items())} a run, of all threads"]
    if found.get("instructions") and found.get("cycles"):
        lines.append(f"         {found['instructions'] / found['cycles']:.2f} instructions a cycle")
    if found.get("cache references"):
        share = found.get("cache misses", 0.0) / found["cache references"]
        lines[-1] += f", {share:.1%} of what the last cache was asked for was not there"
    return lines
