"""What the commands share: reading a program, and code for its custom calls."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

import click

import xloom
from xloom.errors import CustomCallError, Span, XloomError
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
            _run_python(library)
        elif suffix in (".c", ".cc", ".cpp", ".cxx", ".cu"):
            load_source(library)
        elif suffix in (".so", ".dylib"):
            load_library(library)
        else:
            raise CustomCallError(f"cannot load {library}", hint="give a .py, .so, .c, .cc or .cu file")


def _run_python(path: str) -> None:
    try:
        runpy.run_path(path)
    except XloomError:
        raise
    except Exception as error:
        message = f"cannot load {path}: {type(error).__name__}: {error}"
        raise CustomCallError(message, span=_place(error, path)) from error


def _place(error: Exception, path: str) -> Span | None:
    """The innermost line of the file itself that `error` came through."""
    if isinstance(error, SyntaxError) and error.filename == path and error.lineno:
        return Span(error.lineno, error.offset or 1, (error.text or "").rstrip("\n"), path)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == path and frame.lineno:
            # colno counts bytes of the line as it is in the file; frame.line is stripped
            lines = Path(path).read_text(errors="replace").splitlines()
            text = lines[frame.lineno - 1] if frame.lineno <= len(lines) else ""
            return Span(frame.lineno, (frame.colno or 0) + 1, text, path)
    return None
