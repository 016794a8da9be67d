"""What checks of values cost: each program as it is, and with XLOOM_CHECK's nan, inf and oob.

python -m benchmarks.checks [--filter PATTERN] [--check nan,oob] [--repeats 9] [--out FILE]

Both run in one process, alternated. With --out, results are kept there, and what is there is not measured again.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from pathlib import Path

import click

import xloom as xl
from benchmarks.figures import duration, factor
from benchmarks.progress import progress_bar
from benchmarks.result import geometric_mean
from benchmarks.timing import alternate, cpu_ratios, median_wall, ratios
from benchmarks.trial import one_line

Figures = list[float] | str
"""Seconds without and with checks, the median of the pairs' ratios by the clock and by processor time, seconds to
compile both; or why there are none."""

_ALLOWED = 2.0


def measure(name: str, checks: list[str], repeats: int) -> Figures:
    """The figures of a program."""
    from benchmarks.programs import PROGRAMS
    from benchmarks.sides import bytecode

    program = PROGRAMS[name]
    module, arguments = xl.from_stablehlo(bytecode(program)), program.make_arguments()
    seconds, runs = [], []
    for check in ([], checks):
        begin = time.perf_counter()
        executable = xl.compile(module, check=check)
        seconds.append(time.perf_counter() - begin)
        runs.append(lambda executable=executable: executable(*arguments))
    try:
        runs[1]()
    except xl.XloomError as error:
        return one_line(error)
    plain, checked = alternate(*runs, repeats=repeats)
    pairs = [ratios(checked, plain), cpu_ratios(checked, plain)]
    return [median_wall(plain), median_wall(checked), *map(statistics.median, pairs), *seconds]


@click.command()
@click.option("--filter", "-f", "pattern", default="", help="Only programs whose name has this pattern.")
@click.option("--check", default="nan,inf,oob", show_default=True, help="What is checked.")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Alternated pairs a program.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep results here, and go on from those that are.")
def main(pattern: str, check: str, repeats: int, out: Path | None) -> None:
    """Measure each program without and with checks."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from benchmarks.programs import PROGRAMS

    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    found: dict[str, Figures] = {row["name"]: row["figures"] for row in rows}
    wanted = [name for name in PROGRAMS if re.search(pattern, name)]
    with progress_bar() as progress:
        task = progress.add_task("", total=len(wanted), completed=sum(name in found for name in wanted))
        for name in wanted:
            if name in found:
                continue
            progress.update(task, description=name)
            figures = found[name] = measure(name, check.split(","), repeats)
            progress.update(task, advance=1)
            progress.console.print(_line(name, figures), markup=False, highlight=False)
            if out:
                with out.open("a") as file:
                    file.write(json.dumps({"name": name, "figures": figures}) + "\n")
    good = {name: figures for name in wanted if not isinstance(figures := found[name], str)}
    slower = sorted(((figures[3], name) for name, figures in good.items()), reverse=True)
    by_clock, by_processor = (geometric_mean([figures[k] for figures in good.values()]) for k in (2, 3))
    print(
        f"{len(good)} programs with {check}: {factor(by_clock)} by the clock, {factor(by_processor)} by processor time"
    )
    print(*(_line(name, found[name]) for ratio, name in slower if ratio > _ALLOWED), sep="\n")


def _line(name: str, figures: Figures) -> str:
    if isinstance(figures, str):
        return f"{name}: {figures}"
    plain, checked, ratio, cpu_ratio, *seconds = figures
    compiled = " and ".join(map(duration, seconds))
    times = (
        f"{duration(plain)}, checked {duration(checked)}, ratio {factor(ratio)}, of processor time {factor(cpu_ratio)}"
    )
    return f"{name}: {times}; compiled in {compiled}"


if __name__ == "__main__":
    main()
