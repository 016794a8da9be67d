"""xloom diff."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from xloom.cli.program_arguments import program_arguments
from xloom.cli.program_input import load_code, load_option, program_argument, read_program

if TYPE_CHECKING:
    from xloom.difference import FirstDifference
    from xloom.hlo.module import Module


@click.command()
@program_argument
@click.argument("other", type=click.Path(dir_okay=False), required=False)
@click.option("--pass", "passes", metavar="PASSES", default="", help="Compare with what these passes make of it.")
@click.option("--names", is_flag=True, help="Names mean something: match by them, and report those that change.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write both programs side by side, as a page by itself.")
@click.option("--values", is_flag=True, help="Run both, and name the first instruction whose value differs.")
@click.option(
    "--against",
    metavar="interpreter|cpu|jaxlib|pjrt:BACKEND|cpu:PASSES",
    help="Of one program: whose values its native code's are to be; a backend of PJRT is a platform of JAX's, or the "
    "path of a plugin; with cpu:PASSES, those of its native code without these passes, with them being judged.",
)
@click.option(
    "--on",
    metavar="interpreter|cpu|jaxlib|pjrt:BACKEND",
    help="Who runs two programs, by default the interpreter; with --against, who is judged, by default the CPU.",
)
@click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="A .npy file an argument; random without.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random arguments.")
@click.option(
    "--save",
    type=click.Path(file_okay=False),
    help="Folder for what reproduces it: alone.hlo, operand0.npy, ...",
)
@load_option
def diff(
    file: str,
    other: str | None,
    passes: str,
    names: bool,
    html: str | None,
    values: bool,
    against: str | None,
    on: str | None,
    inputs: tuple[str, ...],
    seed: int,
    save: str | None,
    libraries: tuple[str, ...],
) -> None:
    """Say what is different between two programs, or which value is the first to differ.

    Instructions are matched by what they compute and by their neighbours, so that other names are no difference. With
    --values, each instruction is judged for the values that its operands have, within the rounding that is open to it;
    interior values of compiled code are asked for as results, few at a time, as each changes what is fused.

    \b
      xloom diff before.hlo after.hlo                      added, removed, changed, moved
      xloom diff before.hlo after.hlo --html diff.html     side by side
      xloom diff model.hlo --pass algebraic-simplification what does a pass do?
      xloom diff model.hlo --values --against interpreter  which operator is compiled wrong?
      xloom diff model.hlo --values --against jaxlib --save wrong/
      xloom diff model.hlo --values --on pjrt:xloom --against pjrt:cpu   two backends of PJRT
      xloom diff model.hlo --pass cse --values             which value does a pass change?
      xloom diff before.hlo after.hlo --values --on cpu

    Exit status: 0 if there is no difference, 1 if there is, 2 for wrong usage.
    """
    if (other is not None) + bool(passes) + (against is not None) != 1:
        raise click.UsageError("give one of: a second program, --pass, or --values with --against")
    if against is not None and not values:
        raise click.UsageError("--against is for --values")
    load_code(libraries)
    module = read_program(file)
    if values:
        found = _values(module, other, passes, names, against, on, inputs, seed)
        if found is None:
            click.echo("no value differs by more than rounding")
            return
        click.echo(str(found))
        if save:
            found.save(save)
        sys.exit(1)
    from xloom.difference import diff as compared
    from xloom.difference import markup

    after = read_program(other) if other is not None else _after(module, passes)
    structure = compared(module, after, names=names)
    if html:
        Path(html).write_text(markup.html(structure), encoding="utf-8")
    Console(soft_wrap=True, highlight=False).print(markup.text(structure), end="")
    sys.exit(0 if structure.same else 1)


def _after(module: Module, passes: str) -> Module:
    import xloom.cpu.prepare  # noqa: F401 - registers the backend's passes
    from xloom.passes import run_passes

    after = module.clone("")
    run_passes(after, passes)
    return after


def _name_platforms(*sides: str) -> None:
    """JAX has the platforms that are asked for, unless its environment says which."""
    from xloom.difference.sides import PJRT

    names = [name.removeprefix(PJRT) for name in sides if name.startswith(PJRT) and os.sep not in name]
    if names:
        os.environ.setdefault("JAX_PLATFORMS", ",".join(dict.fromkeys([*names, "cpu"])))


def _values(
    module: Module,
    other: str | None,
    passes: str,
    names: bool,
    against: str | None,
    on: str | None,
    inputs: tuple[str, ...],
    seed: int,
) -> FirstDifference | None:
    from xloom.difference.search import Program, between, first_difference
    from xloom.difference.sides import side

    _name_platforms(on or "", against or "")
    arguments = program_arguments(module, inputs, seed)
    if against is not None and not against.startswith("cpu:"):
        return first_difference(Program(module, side(on or "cpu")), Program(module, side(against)), arguments)
    if against is not None:
        after, who = _after(module, against.removeprefix("cpu:")), side(on or "cpu")
    else:
        after, who = (read_program(other) if other is not None else _after(module, passes)), side(on or "interpreter")
    return between(Program(module, who), Program(after, who), arguments, names=names)
