"""xloom show."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click
from rich.console import Console

from xloom.cli.program_arguments import program_arguments
from xloom.cli.program_input import load_code, load_option, read_program
from xloom.hlo.module import Module


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), help="The page; by default the program's name with .html, here."
)
@click.option("--open", "opened", is_flag=True, help="Open it in the browser.")
@click.option("--passes", is_flag=True, help="Show the program after each pass, and what that changed.")
@click.option("--profile", is_flag=True, help="Run it: time, bytes and share of the machine's limit of each kernel.")
@click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="For --profile: a .npy file an argument. Those that are missing are random.",
)
@click.option("--graph-only", is_flag=True, help="Compile nothing: no passes, no schedule, no memory.")
@click.option("--module", "part", default="", help="Of a folder of dumps with several programs, a part of a name.")
@load_option
def show(
    file: str,
    output: str | None,
    opened: bool,
    passes: bool,
    profile: bool,
    inputs: tuple[str, ...],
    graph_only: bool,
    part: str,
    libraries: tuple[str, ...],
) -> None:
    """Write a page with a program's graph, what passes change, its schedule and its memory.

    The page is one file, needs no server and asks the network for nothing. FILE is a program, or a folder that
    `xloom opt --dump` or XLA_FLAGS=--xla_dump_to wrote; its modules are then the steps.

    \b
      xloom show model.hlo --open
      xloom show model.hlo --passes -o model.html
      xloom show model.hlo --profile -i x.npy      which kernels take long, and could they be faster?
      xloom show dump/ --module jit_step
    """
    from xloom.viewer.dump import read_dump
    from xloom.viewer.profile import Profile
    from xloom.viewer.program_page import show as page_of

    if graph_only and (passes or profile):
        raise click.UsageError("--graph-only compiles nothing, and --passes and --profile show what is compiled")
    if inputs and not profile:
        raise click.UsageError("--input is for --profile: nothing else runs the program")
    load_code(libraries)
    console = Console(stderr=True, highlight=False)
    with console.status("reading") as status:
        modules = read_dump(file, part) if Path(file).is_dir() else [("program", read_program(file))]
        measured = None
        if profile:
            status.update("running")
            program: Module = modules[-1][1]
            measured = Profile.of(program, program_arguments(program, inputs, 0))
        page = page_of(modules, passes=passes, compiled=not graph_only, profile=measured, progress=status.update)
        path = page.save(output or f"{_name(file)}.html")
    click.echo(f"{path}  {path.stat().st_size / 2**10:.0f} KiB")
    if opened:
        webbrowser.open(path.absolute().as_uri())


def _name(file: str) -> str:
    return "program" if file == "-" else Path(file).resolve().stem
