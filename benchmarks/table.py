"""Results as a table: on the terminal, and as Markdown."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from benchmarks import bandwidth, libraries, scaling
from benchmarks.figures import (
    compile_factor,
    duration,
    factor,
    peak_factor,
    share,
    size,
    summarise,
    summary_lines,
)
from benchmarks.machine import Machine
from benchmarks.result import Result

COLUMNS = (
    "program",
    "XLA",
    "xloom",
    "ratio",
    "CPU ratio",
    "compile, XLA",
    "xloom",
    "of XLA's",
    "cached",
    "peak",
    "of XLA's",
    "reaches",
)

_METHOD = """\
Both compilers get the same StableHLO, arguments and number of threads, and run in one process. Results are compared
first; then blocks of calls alternate, and each figure is a median. A ratio is XLA's time over ours, the median over
pairs of neighbouring blocks: **above 1, xloom is faster**. The CPU ratio is the same of processor time over all
threads. Compilation begins with StableHLO, in a new process with nothing cached: it finds what each side's package
brings compiled (Eigen there, `make kernels` here); "cached" is with the program's machine code on disk, of XLA's time
too. Peak memory counts arguments, results and temporary buffers; on neither side what kernels take for themselves (ours
on threads' stacks, in blocks of fixed size; Eigen's from malloc). "reaches" is the share of the machine's limits that
xloom comes to: the bytes that a program must at least read and write against a STREAM triad, or its operations against
f32 multiply-adds in registers, on all threads and alternated with the program, as machines with other guests have other
limits each minute; what stays in caches, or multiplies narrower numbers, can pass 100%.
`make bench` makes this page."""


def cells(result: Result) -> tuple[str, ...]:
    """One row. What was not measured says why."""
    if result.xla is None or result.ours is None:
        return (result.name, f"{result.status}: {result.message}", *[""] * (len(COLUMNS) - 2))
    return (
        result.name,
        duration(result.xla.run),
        duration(result.ours.run),
        factor(result.ratio),
        factor(result.cpu_ratio),
        duration(result.xla.compile),
        duration(result.ours.compile),
        factor(compile_factor(result, result.ours.compile)),
        factor(compile_factor(result, result.cached_compile)),
        size(result.ours.peak_bytes),
        factor(peak_factor(result)),
        share(result),
    )


def terminal_table(results: list[Result]) -> Table:
    """For rich; what was not measured comes below it, by `failures`."""
    table = Table(box=None, header_style="bold", pad_edge=False, row_styles=["", "dim"])
    for k, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if k == 0 else "right", no_wrap=True)
    for result in results:
        if result.status == "ok":
            row = [Text(c) for c in cells(result)]
            row[3].stylize("green" if result.ratio >= 1.0 else "red" if result.ratio < 0.7 else "yellow")
            table.add_row(*row)
    return table


def failures(results: list[Result]) -> list[str]:
    """A line a program that was not measured."""
    return [f"{r.name}: {r.status}: {r.message}" for r in results if r.status != "ok"]


def markdown(results: list[Result], machine: Machine, chart: str, level: str = "") -> str:
    """The results page; `chart` is the path of the picture, `level` the processors that both sides made code for."""
    versions = ", ".join(f"{k} {v}" for k, v in machine.versions.items())
    summary = summarise(results)
    lines = [
        f"# Benchmarks: xloom and XLA:CPU{f' for {level}' if level else ''}",
        "",
        *(
            [f"- The code of both sides is for {level}, as older processors have it, and runs on the machine below."]
            * bool(level)
        ),
        *(f"- {line}" for line in summary_lines(summary)),
        f"- Machine: {machine.processor}, {machine.threads} threads, at best {machine.bandwidth / 1e9:.1f} GB/s and "
        f"{machine.peak / 1e9:.0f} GFLOP/s, load before the run {machine.load:.1f}. {versions}.",
        "",
        _METHOD,
        "",
        f"![Run-time ratio of each program]({chart})",
        "",
        "| family | ratio |",
        "|---|--:|",
        *(f"| {family} | {factor(ratio)} |" for family, ratio in summary.families.items()),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" + "|--:" * (len(COLUMNS) - 1) + "|",
        *("| " + " | ".join(c.replace("|", "\\|") for c in cells(r)) + " |" for r in results if r.xla),
    ]
    others = [line for r in results if not r.xla for line in failures([r])]
    if others:
        lines += ["", "Not measured:", "", *(f"- {line}" for line in others)]
    if not level:
        lines += [*libraries.section(), *bandwidth.section(), *scaling.section("scaling.svg")]
    return "\n".join(lines) + "\n"
