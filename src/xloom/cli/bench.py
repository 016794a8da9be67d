"""xloom bench."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import xloom
from xloom.cli.program_input import load_code, load_option, program_argument, read_program
from xloom.hlo.module import Module
from xloom.interpreter.values import random_argument
from xloom.roofline.kernel_times import kernel_times
from xloom.roofline.limits import measure

_SHORTEST_BLOCK = 0.005


@click.command()
@program_argument
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Blocks of runs to measure.")
@click.option(
    "--against",
    type=click.Choice(["jaxlib"]),
    help="Measure XLA:CPU too (needs the extra `jax`): blocks of runs alternate, the ratio is that of neighbours.",
)
@click.option("--profile", is_flag=True, help="A table of kernels, and how near each is to the machine's limits.")
@click.option("--trace", "path", type=click.Path(dir_okay=False), help="Write the profiled runs for ui.perfetto.dev.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Kernels that the table shows.")
@load_option
def bench(
    file: str, repeats: int, against: str | None, profile: bool, path: str | None, top: int, libraries: tuple[str, ...]
) -> None:
    """Measure a program: compile time, time of a run, and where it goes.

    Arguments are random. Times are medians of blocks of runs.

    \b
      xloom bench model.hlo
      xloom bench model.hlo --against jaxlib       who is faster?
      xloom bench model.hlo --profile              which kernels take long, and could they be faster?
    """
    load_code(libraries)
    module = read_program(file)
    generator = np.random.default_rng(0)
    arguments = [random_argument(p.shape, generator) for p in module.entry.parameters]
    start = time.perf_counter()
    program = xloom.compile(module)
    compile_seconds = time.perf_counter() - start
    runs = [lambda: program(*arguments)]
    if against:
        from xloom.stablehlo.reference import compiled_by_xla_cpu

        runs.append(compiled_by_xla_cpu(module, arguments))
    times = _alternated(runs, repeats)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{module.name}: {sum(1 for _ in module.instructions)} instructions")
    console.print(f"compile  {_time(compile_seconds)} (from the cache on disk if it was compiled before)")
    console.print(
        f"run      {_time(statistics.median(times[0]))}  between {_time(min(times[0]))} and {_time(max(times[0]))}"
    )
    console.print(f"memory   {program.memory.peak_bytes / 2**20:.2f} MiB at most")
    if against:
        ratio = statistics.median(theirs / ours for ours, theirs in zip(times[0], times[1], strict=True))
        console.print(f"XLA:CPU  {_time(statistics.median(times[1]))}  {ratio:.2f} times ours")
    if profile or path:
        _profile(console, module, arguments, repeats, path, top)


def _alternated(runs: list[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """Seconds a run, a row for each; blocks of about equal length in turn."""
    counts = []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        counts.append(max(1, round(_SHORTEST_BLOCK / max(1e-7, time.perf_counter() - start))))
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, count, row in zip(runs, counts, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                run()
            row.append((time.perf_counter() - start) / count)
    return times


def _profile(console: Console, module: Module, arguments: list[Any], repeats: int, path: str | None, top: int) -> None:
    kernels = kernel_times(module, arguments, repeats, path)
    total = sum(kernel.total for kernel in kernels)
    limits = measure()
    table = Table(
        title=f"{limits.bandwidth / 1e9:.1f} GB/s and {limits.peak / 1e9:.0f} GFLOP/s are this machine's limits"
    )
    for name in ("kernel", "opcode", "share", "time", "runs", "GB/s", "GFLOP/s", "of the limit"):
        table.add_column(name, justify="left" if name in ("kernel", "opcode") else "right", overflow="ellipsis")
    for kernel in kernels[:top]:
        table.add_row(
            kernel.name,
            kernel.opcode,
            f"{kernel.total / max(total, 1e-9):.1%}",
            _time(kernel.seconds),
            f"{kernel.runs:g}",
            f"{kernel.bandwidth / 1e9:.1f}",
            f"{kernel.rate / 1e9:.1f}",
            f"{kernel.of_limit(limits):.0%}",
        )
    console.print(table)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
