"""The command line of the sweep: which programs, how often, and where the results are kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
from rich.console import Console

from benchmarks.progress import progress_bar
from benchmarks.result import Result
from benchmarks.sweep.case import Case
from benchmarks.sweep.families import CASES
from benchmarks.sweep.report import report
from benchmarks.sweep.runner import sweep

_TABLE_WIDTH = 140


@click.command()
@click.option("--filter", "-f", "pattern", default="", help="Only programs whose family/name has this pattern.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Alternated pairs a program.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep results here, and go on from those that are.")
@click.option(
    "--slower-than",
    type=float,
    default=0.95,
    show_default=True,
    help="List programs whose ratio, XLA's time over ours, is below this.",
)
def main(pattern: str, repeats: int, out: Path | None, slower_than: float) -> None:
    """Measure the breadth of JAX's API on xloom against jaxlib's XLA:CPU."""
    cases = [case for case in CASES if re.search(pattern, case.name)]
    if not cases:
        raise click.BadParameter(f"no program has {pattern!r} in its name", param_hint="--filter")
    console = Console()
    console.width = max(console.width, _TABLE_WIDTH)
    for part in report(_measure_all(cases, repeats, out), slower_than):
        console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))


def _measure_all(cases: list[Case], repeats: int, out: Path | None) -> list[Result]:
    """What `out` has of the cases, and the rest measured; all of it up to an interrupt."""
    names = {case.name for case in cases}
    results = [r for r in _kept(out) if r.name in names]
    left = sorted(names - {r.name for r in results})
    by_name = {case.name: case for case in cases}
    with progress_bar() as progress:
        task = progress.add_task("start", total=len(cases), completed=len(results))

        def record(result: Result) -> None:
            results.append(result)
            progress.advance(task)
            if out:
                with out.open("a") as file:
                    file.write(json.dumps(result.to_json()) + "\n")

        try:
            sweep([by_name[n] for n in left], repeats, lambda n: progress.update(task, description=n), record)
        except KeyboardInterrupt:
            progress.console.print("interrupted; what follows is what was measured")
    return results


def _kept(out: Path | None) -> list[Result]:
    """What an earlier run left; a line that it did not finish is no result, and goes."""
    if out is None or not out.exists():
        return []
    text = out.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        out.write_text(whole)
    return [Result.from_json(json.loads(line)) for line in whole.splitlines()]
