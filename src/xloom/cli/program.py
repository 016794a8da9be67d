"""What the commands share: reading a program, and code for its custom calls."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click

import xloom
from xloom.errors import CustomCallError
from xloom.hlo.module import Module

program_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
load_option = click.option(
    "--load",
    "libraries",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Code of custom calls: a .py file that registers them, a .so, or a .c/.cc file that uses our header.",
)


def read_program(file: str) -> Module:
    """The module in a file or, for "-", on standard input."""
    if file == "-":
        return xloom.load_bytes(sys.stdin.buffer.read(), "<stdin>")
    if not Path(file).exists():
        raise click.FileError(file, "there is no such file")
    return xloom.load(file)


def load_code(libraries: tuple[str, ...]) -> None:
    """Registers the custom calls of each file."""
    from xloom.calls import load_library, load_source

    for library in libraries:
        suffix = Path(library).suffix
        if suffix == ".py":
            runpy.run_path(library)
        elif suffix in (".c", ".cc", ".cpp", ".cxx"):
            load_source(library)
        elif suffix in (".so", ".dylib"):
            load_library(library)
        else:
            raise CustomCallError(f"cannot load {library}", hint="give a .py, .so, .c or .cc file")
