"""Each program with one thread and with all of them: which are slower with more?

python -m benchmarks.threads [--set programs] [--set npbench-M --from CHECKOUT] [--filter PATTERN] [--out FILE]

A program runs in one process, in turn with its loops cut for one thread and for all. With --out, results are kept
there, and what is there is not measured again.
"""

from __future__ import annotations

import gc
import json
import os
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import jax

from benchmarks.child import ChildError, run_child
from benchmarks.figures import duration, factor
from benchmarks.npbench import programs, runner
from benchmarks.programs import PROGRAMS
from benchmarks.progress import progress_bar
from benchmarks.result import geometric_mean
from benchmarks.sides import bytecode, compile_ours
from benchmarks.sweep.case import Case
from benchmarks.sweep.families.loops import LOOPS
from benchmarks.sweep.families.random_loops import RANDOM_LOOPS
from benchmarks.timing import Run, alternate, median_wall, ratios
from benchmarks.trial import one_line
from xloom.cpu.runtime.threads import pool

_LOOPS = {case.name: case for family in (LOOPS, RANDOM_LOOPS) for case in family.cases}
_SETS = ("programs", "loops", "npbench-S", "npbench-M")
_SECONDS = 120.0
_QUIET, _ATTEMPTS = 0.1, 4
"""Processors that others may have meanwhile, as all threads want all; else it is measured again, so often."""
_SLOWER = 1 / 1.05

Figures = list[float] | str
"""Seconds with one thread, with all, the median of the pairs' ratios, others' processors; or why there are none."""


def _names(kind: str, checkout: str) -> list[str]:
    if kind.startswith("npbench"):
        return programs(checkout)
    return list(PROGRAMS if kind == "programs" else _LOOPS)


def _runner(kind: str, checkout: str, name: str) -> Run:
    if kind.startswith("npbench"):
        return runner(checkout, name, kind.removeprefix("npbench-"), "xloom")
    program = PROGRAMS[name] if kind == "programs" else _LOOPS[name]
    jax.config.update("jax_enable_x64", isinstance(program, Case) and program.wide)
    return compile_ours(bytecode(program), program.make_arguments()).run


def compare(run: Run, repeats: int) -> list[float]:
    """Seconds with one thread, with all, the median of the pairs' ratios, and the processors that others had."""

    def with_threads(most: int) -> Run:
        limit = pool().limit

        def limited() -> Any:
            limit(most)
            return run()

        return limited

    found: list[list[float]] = []
    for _ in range(_ATTEMPTS):
        with Others() as others:
            one, several = alternate(with_threads(1), with_threads(pool().size), repeats=repeats)
        ratio = statistics.median(ratios(one, several))
        found.append([median_wall(one), median_wall(several), ratio, others.processors])
        if others.processors < _QUIET:
            break
    return min(found, key=lambda figures: figures[3])


class Others:
    """How many processors other processes, and other guests of the machine, had during a `with` block."""

    processors = 0.0

    def __enter__(self) -> Others:
        self._before = self._times()
        return self

    def __exit__(self, *_: object) -> None:
        wall, used = (after - before for after, before in zip(self._times(), self._before, strict=True))
        self.processors = used / wall

    def _times(self) -> tuple[float, float]:
        """Seconds by the clock, and of processors without this process's own."""
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        user, nice, system, _, _, irq, softirq, steal = fields
        all_of_them = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), all_of_them - time.process_time()


def _child(kind: str, checkout: str, repeats: str, *names: str) -> None:
    """Prints a line of JSON for each program when it begins and when it was measured."""
    warnings.simplefilter("ignore")
    gc.freeze()
    for name in names:
        print(json.dumps({"begins": name}), flush=True)
        try:
            figures: Figures = compare(_runner(kind, checkout, name), int(repeats))
        except Exception as error:  # whatever it is, it is the answer
            figures = one_line(error)
        print(json.dumps({"name": name, "figures": figures}), flush=True)


def _measure(kind: str, checkout: str, repeats: int, names: list[str], record: Callable[[str, Figures], None]) -> None:
    """All of a set; after a crash the rest goes on in another process."""
    begun = ""
    left = list(names)

    def line(data: dict[str, Any]) -> None:
        nonlocal begun
        begun = data.get("begins", begun)
        if "figures" in data:
            left.remove(begun)
            record(begun, data["figures"])

    with TemporaryDirectory() as cache:
        while left:
            count = len(left)
            arguments = ["benchmarks.threads", "--child", kind, checkout, str(repeats), *left]
            try:
                run_child(arguments, cache, _SECONDS * count, line)
            except ChildError as error:
                if begun not in left:
                    raise
                left.remove(begun)
                record(begun, str(error))


@click.command()
@click.option("--set", "kinds", multiple=True, type=click.Choice(_SETS), help="Which programs; else all there are.")
@click.option("--from", "checkout", default="", help="A checkout of github.com/spcl/npbench, for its sets.")
@click.option("--filter", "-f", "pattern", default="", help="Only programs whose name has this pattern.")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Alternated pairs a program.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep results here, and go on from those that are.")
def main(kinds: tuple[str, ...], checkout: str, pattern: str, repeats: int, out: Path | None) -> None:
    """Measure each program with one thread and with all."""
    kinds = kinds or tuple(k for k in _SETS if checkout or not k.startswith("npbench"))
    checkout = str(Path(checkout).resolve()) if checkout else ""
    os.environ["JAX_PLATFORMS"] = "xloom,cpu" if checkout else "cpu"
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    found: dict[tuple[str, str], Figures] = {(row["set"], row["name"]): row["figures"] for row in rows}
    wanted = [(kind, name) for kind in kinds for name in _names(kind, checkout) if re.search(pattern, name)]
    with progress_bar() as progress:
        task = progress.add_task("", total=len(wanted), completed=sum(key in found for key in wanted))
        for kind in kinds:

            def record(name: str, figures: Figures, kind: str = kind) -> None:
                progress.update(task, advance=1, description=f"{kind} {name}")
                found[kind, name] = figures
                progress.console.print(_line(kind, name, figures), markup=False, highlight=False)
                if out:
                    with out.open("a") as file:
                        file.write(json.dumps({"set": kind, "name": name, "figures": figures}) + "\n")

            left = [name for k, name in wanted if k == kind and (k, name) not in found]
            _measure(kind, checkout, repeats, left, record)
    _report({key: found[key] for key in wanted})


def _line(kind: str, name: str, figures: Figures) -> str:
    if isinstance(figures, str):
        return f"{kind} {name}: {figures}"
    one, several, ratio, others = figures
    line = f"{kind} {name}: one thread {duration(one)}, all {duration(several)}, ratio {factor(ratio)}"
    return line if others < _QUIET else f"{line}, while others had {others:.1f} processors"


def _report(found: dict[tuple[str, str], Figures]) -> None:
    good = {key: figures for key, figures in found.items() if not isinstance(figures, str)}
    for kind in dict.fromkeys(kind for kind, _ in good):
        of_kind = [figures[2] for (k, _), figures in good.items() if k == kind]
        print(f"{kind}: {len(of_kind)} programs, geometric mean {factor(geometric_mean(of_kind))}")
    slow = sorted((figures[2], _line(*key, figures)) for key, figures in good.items() if figures[2] < _SLOWER)
    print(f"{len(slow)} of {len(good)} are slower with all threads by more than 5 %", *(x for _, x in slow), sep="\n  ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:])
    else:
        main()
