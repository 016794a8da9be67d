"""What tuned constants of the compiler decide: programs compiled with each as it is, halved and doubled, alternated.

python -m benchmarks.constants [--only NAME,...] measures the rows of `tuned_constants.py` and writes constants.json and
CONSTANTS.md; --search MODULE.NAME says which programs of the benchmark set, and of our own, a constant decides.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.constant_programs import OWN
from benchmarks.constant_variants import Variant, VariantError, agree, value_of
from benchmarks.constants_page import is_faster, page
from benchmarks.programs import PROGRAMS, Program
from benchmarks.progress import progress_bar
from benchmarks.sides import bytecode
from benchmarks.tuned_constants import TUNED, Tuned
from xloom.environment import CACHE
from xloom.hlo.module import Module
from xloom.stablehlo import from_stablehlo

_FOLDER = Path(__file__).parent
_PROCESSES = 2
"""In which each variant runs."""
_AGAIN = 2
"""How many times more that is measured in which another value is faster."""

Ratios = dict[str, float]
"""Time with another value over that with the constant's own, by value."""


def neighbours(row: Tuned) -> list[Any]:
    """The values that a constant is compared with."""
    value = value_of(row.module, row.name)
    if row.others:
        return list(row.others)
    return [value // 2, value * 2] if isinstance(value, int) else [value / 2, value * 2]


def deciding(row: Tuned, module: Module, values: list[Any]) -> list[Any]:
    """The values with which the program is another one: another LLVM IR, module or pipeline."""
    if row.at_run_time:
        return values
    with ExitStack() as stack:
        own = value_of(row.module, row.name)
        children = [stack.enter_context(Variant((row.module, row.name, v), module)) for v in (own, *values)]
        for child in children:
            child.begin("emit")
        first, *others = [child.answer() for child in children]
    return [value for value, other in zip(values, others, strict=True) if other != first]


# --- one program


def measured(row: Tuned, program: Program, rounds: int) -> dict[str, Ratios]:
    """Ratios of the kinds of time that a row asks for; none where no value decides."""
    module = from_stablehlo(bytecode(program))
    values = deciding(row, module, neighbours(row))
    return {kind: _repeated(row, program, module, values, rounds, kind) for kind in row.kinds} if values else {}


def _repeated(row: Tuned, program: Program, module: Module, values: list[Any], rounds: int, kind: str) -> Ratios:
    """By value. `again` is of the constant's own value, measured twice."""
    own = value_of(row.module, row.name)
    arguments = program.make_arguments() if kind == "run" else ()
    seconds = _compile_seconds if kind == "compile" else _run_seconds

    def once() -> Ratios:
        first, *rest = seconds([((row.module, row.name, v), module, arguments) for v in (own, *values, own)], rounds)
        return dict(zip([*map(str, values), "again"], [other / first for other in rest], strict=True))

    found = [once()]
    if any(is_faster(found[0], label) for label in found[0]):  # or by chance
        found.extend(once() for _ in range(_AGAIN))
    return {label: statistics.median(ratios[label] for ratios in found) for label in found[0]}


def _run_seconds(variants: Sequence[Any], rounds: int) -> list[float]:
    """The shortest times of variants: how fast memory is differs from process to process, so there are several."""
    least = [math.inf for _ in variants]
    for _ in range(_PROCESSES):
        with ExitStack() as stack:
            children = [stack.enter_context(Variant(*variant)) for variant in variants]
            for child in children:
                child.begin("compile")
            for child in children:
                child.answer()
            if not all(agree(children[0].ask("sums"), child.ask("sums")) for child in children[1:]):
                raise VariantError("another value gives other results")
            sides = [partial(child.ask, "block", child.ask("calls")) for child in children]
            least = _least(least, _alternated(sides, rounds))
    return least


def _compile_seconds(variants: Sequence[Any], rounds: int) -> list[float]:
    def side(variant: Any) -> float:
        with Variant(*variant) as child:
            return child.ask("compile")

    return _alternated([partial(side, variant) for variant in variants], rounds)


def _alternated(sides: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """The shortest times that sides give in turn, which what else the machine does hardly changes."""
    least = [math.inf for _ in sides]
    for k in range(rounds):
        order = range(len(sides)) if k % 2 == 0 else reversed(range(len(sides)))
        found = {side: sides[side]() for side in order}
        least = _least(least, [found[side] for side in range(len(sides))])
    return least


def _least(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [min(pair) for pair in zip(first, second, strict=True)]


# --- the command


def search(row: Tuned) -> Iterator[str]:
    """The programs of the set and of our own that a constant decides."""
    for name, program in {**PROGRAMS, **OWN}.items():
        try:
            values = deciding(row, from_stablehlo(bytecode(program)), neighbours(row))
        except VariantError as error:
            yield f"{name}: {error}"
            continue
        if values:
            yield f"{name}: {', '.join(map(str, values))}"


def _chosen(only: str) -> list[Tuned]:
    names = [name for name in only.split(",") if name]
    found = [row for row in TUNED if not names or any(name in row.full for name in names)]
    if not found:
        raise click.BadParameter(
            f"no row of tuned_constants.py has {only!r} in its module or name", param_hint="--only"
        )
    return found


def _result(row: Tuned, rounds: int, say: Callable[[str], None]) -> Mapping[str, Any]:
    programs: dict[str, dict[str, Ratios] | str] = {}
    for name in row.programs.split():
        try:
            programs[name] = measured(row, {**PROGRAMS, **OWN}[name], rounds)
        except VariantError as error:
            programs[name] = str(error)
        say(f"{row.full} = {value_of(row.module, row.name)}  {name}  {_said(programs[name])}")
    return {"value": str(value_of(row.module, row.name)), "programs": programs}


def _said(kinds: dict[str, Ratios] | str) -> str:
    if isinstance(kinds, str):
        return kinds
    texts = [f"{kind}: {', '.join(f'{x} {r:.3f}' for x, r in ratios.items())}" for kind, ratios in kinds.items()]
    return "; ".join(texts) or "decides nothing"


@click.command()
@click.option("--only", default="", help="Only constants with one of these, separated by commas, in module.NAME.")
@click.option("--search", "wanted", default="", help="Say which programs module.NAME decides, and leave.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Of the alternated variants.")
def main(only: str, wanted: str, rounds: int) -> None:
    """Measure what the tuned constants decide, and write benchmarks/CONSTANTS.md."""
    os.environ[CACHE.name] = "0"  # what was compiled under another value is not to be found
    if wanted:
        module, _, name = wanted.rpartition(".")
        for line in search(Tuned(module, name, "")):
            click.echo(line)
        return
    rows = _chosen(only)
    store = _FOLDER / "constants.json"
    results = json.loads(store.read_text()) if store.exists() else {}
    with progress_bar() as progress:
        task = progress.add_task("constants", total=len(rows))
        for row in rows:
            progress.update(task, description=row.full)
            results[row.full] = _result(row, rounds, lambda x: progress.console.print(x, markup=False, highlight=False))
            progress.advance(task)
            known = {r.full: results[r.full] for r in TUNED if r.full in results}
            store.write_text(json.dumps(known, indent=1) + "\n")
            (_FOLDER / "CONSTANTS.md").write_text(page(known))


if __name__ == "__main__":
    main()
