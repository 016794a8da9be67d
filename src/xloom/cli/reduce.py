"""xloom reduce."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from xloom.cli.program_input import load_option, program_argument, read_program

if TYPE_CHECKING:
    from xloom.hlo.module import Module
    from xloom.reduction import Progress as Step
    from xloom.reduction.driver import Predicate


@click.command()
@program_argument
@click.option("--test", metavar="COMMAND", help="Given the path of a module, exits with status 0 if it still fails.")
@click.option(
    "--wrong-against",
    type=click.Choice(["interpreter", "jaxlib"]),
    help="It fails if native code gives another value than the interpreter, or XLA:CPU, by more than rounding.",
)
@click.option("--crash", is_flag=True, help="It fails if compiling and running it ends in the error that it has now.")
@click.option(
    "--pass",
    "passes",
    metavar="PASSES",
    default="",
    help="It fails if these passes end in the error that they end in now, or leave other values.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random arguments.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time limit of one try.")
@click.option(
    "--jobs", "-j", type=click.IntRange(1), default=os.cpu_count() or 1, help="Tries at once; default: all cores."
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False),
    help="Folder for the smallest module so far: the same command goes on from it.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="File to write; default: print.")
@load_option
def reduce(
    file: str,
    test: str | None,
    wrong_against: str | None,
    crash: bool,
    passes: str,
    seed: int,
    seconds: float,
    jobs: int,
    keep: str | None,
    output: str | None,
    libraries: tuple[str, ...],
) -> None:
    """Cut a program down to the smallest valid module that still fails.

    What failing is, is said by one of --test, --wrong-against, --crash and --pass. Each try is a process, or a run in
    one, with a time limit. A test is a command as llvm-reduce and C-Reduce take it; it gets the path of a module and
    exits with status 0 if the failure is still there. It should look for the one failure that is meant: a test that is
    content with any error finds another, smaller one.

    \b
      cat > fails.sh <<'EOF'
      #!/bin/sh
      xloom run "$1" 2>&1 | grep -q "no native code for topk"
      EOF
      chmod +x fails.sh
      xloom reduce model.hlo --test ./fails.sh -o small.hlo

    \b
      xloom reduce model.hlo --wrong-against interpreter   native code is wrong
      xloom reduce model.hlo --crash --keep smaller/       can be stopped, and gone on with
      xloom reduce model.hlo --pass algebraic-simplification

    Exit status: 0 with a reduced module, 1 if the program does not fail, 2 for wrong usage.
    """
    import xloom

    if sum([test is not None, wrong_against is not None, crash, bool(passes)]) != 1:
        raise click.UsageError("say what failing is by one of --test, --wrong-against, --crash and --pass")
    module = read_program(file)
    with _predicate(test, wrong_against or "", passes, seed, seconds, libraries) as fails, _shown() as show:
        reduced = xloom.reduce(module, fails, jobs=jobs, keep=keep, progress=show)
    text = reduced.to_text(print_large_constants=True)
    if output:
        Path(output).write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)
    click.echo(f"{_count(module)} instructions down to {_count(reduced)}", err=True)


def _count(module: Module) -> int:
    return sum(map(len, module.computations))


@contextmanager
def _predicate(
    test: str | None, against: str, passes: str, seed: int, seconds: float, libraries: tuple[str, ...]
) -> Iterator[Predicate]:
    from xloom.reduction import Failure, Script, Trial

    if test is not None:
        yield Script(test, seconds)
        return
    with Failure(Trial(against, passes, seed, libraries), seconds) as failure:
        yield failure


@contextmanager
def _shown() -> Iterator[Callable[[Step], None]]:
    """What shows a step on standard error, in one line if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[left]} instructions, {task.fields[tries]} tries"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("whole module", total=1, left="?", tries=0)

        def show(step: Step) -> None:
            done = step.of - step.instructions
            progress.update(
                task,
                description=step.reduction,
                total=step.of,
                completed=done,
                left=step.instructions,
                tries=step.tries,
            )

        yield show
