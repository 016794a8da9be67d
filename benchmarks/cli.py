"""The command line: which programs, how often, and where the results go."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from benchmarks.chart import chart
from benchmarks.child import limited_threads
from benchmarks.family_chart import PAGE, PICTURE, family_chart
from benchmarks.figures import factor, summarise, summary_lines
from benchmarks.machine import Machine
from benchmarks.programs import PROGRAMS, Program
from benchmarks.progress import progress_bar
from benchmarks.result import Result
from benchmarks.runner import measure, measure_machine
from benchmarks.table import failures, markdown, terminal_table
from xloom.environment import TARGET

_FOLDER = Path(__file__).parent
_TABLE_WIDTH = 140
ISA = {"x86-64-v2": "SSE4_2", "x86-64-v3": "AVX2"}
"""What XLA:CPU calls a level."""
_CORES = len(os.sched_getaffinity(0))


@click.command()
@click.option("--filter", "-f", "pattern", default="", help="Only programs whose family/name has this pattern.")
@click.option("--list", "names_only", is_flag=True, help="List the programs and leave.")
@click.option("--repeats", type=click.IntRange(1), default=21, show_default=True, help="Alternated pairs a program.")
@click.option(
    "--threads",
    type=click.IntRange(1, _CORES),
    default=_CORES,
    show_default=True,
    help="Threads of either side.",
)
@click.option("--level", type=click.Choice(list(ISA)), help="Code of both sides for such processors, not for this one.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds a program may take.")
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path), help="Write the results page here.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results as JSON here.")
def main(
    pattern: str,
    names_only: bool,
    repeats: int,
    threads: int,
    level: str | None,
    timeout: float,
    markdown_path: Path | None,
    json_path: Path | None,
) -> None:
    """Measure xloom against jaxlib's XLA:CPU.

    A run of all programs writes benchmarks/RESULTS.md and its chart; a run of some writes what it is told to.
    """
    programs = [p for name, p in PROGRAMS.items() if re.search(pattern, name)]
    if names_only:
        for program in programs:
            click.echo(program.name)
        return
    if not programs:
        raise click.BadParameter(f"no program has {pattern!r} in its name", param_hint="--filter")
    if not pattern:
        markdown_path = markdown_path or _FOLDER / (f"RESULTS-{level}.md" if level else "RESULTS.md")
    if level:  # children inherit it
        os.environ[TARGET.name] = level
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={ISA[level]}".strip()
    with limited_threads(threads):
        machine, results = _measure_all(programs, repeats, timeout, json_path)
    console = Console()
    console.width = max(console.width, _TABLE_WIDTH)  # a cut number is worse than a wrapped line
    console.print(terminal_table(results))
    for line in [*failures(results), *summary_lines(summarise(results))]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if markdown_path and len(results) == len(programs):  # half a run does not replace a whole one
        picture = markdown_path.with_name(markdown_path.stem.lower() + ".svg")
        picture.write_text(chart(results))
        markdown_path.write_text(markdown(results, machine, picture.name, f"{level} ({ISA[level]})" if level else ""))
        if markdown_path == PAGE:
            PICTURE.write_text(family_chart(PAGE.read_text("utf-8")), "utf-8")


def _measure_all(
    programs: list[Program], repeats: int, timeout: float, json_path: Path | None
) -> tuple[Machine, list[Result]]:
    """Everything up to an interrupt; the JSON is complete after every program."""
    results: list[Result] = []
    with progress_bar() as progress:
        task = progress.add_task("machine", total=len(programs))
        machine = measure_machine()
        try:
            for result in measure(
                programs, repeats, timeout, lambda p, s: progress.update(task, description=f"{p.name}: {s}")
            ):
                results.append(result)
                outcome = factor(result.ratio) if result.status == "ok" else f"{result.status}: {result.message}"
                progress.console.print(f"{result.name}  {outcome}", markup=False, highlight=False)
                progress.advance(task)
                if json_path:
                    data = {"machine": asdict(machine), "results": [r.to_json() for r in results]}
                    json_path.write_text(json.dumps(data, indent=1) + "\n")
        except KeyboardInterrupt:
            progress.console.print("interrupted; what follows is what was measured")
    return machine, results
