"""The `xloom` command and how its errors look."""

from __future__ import annotations

import os
import sys

import click
from rich.console import Console
from rich.text import Text

import xloom
from xloom.cli.bench import bench
from xloom.cli.diff import diff
from xloom.cli.export import export
from xloom.cli.info import info
from xloom.cli.library import library
from xloom.cli.ops import ops
from xloom.cli.opt import opt
from xloom.cli.reduce import reduce
from xloom.cli.run import run
from xloom.cli.run_python import run_python
from xloom.cli.show import show
from xloom.cli.trace import trace
from xloom.errors import XloomError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(xloom.__version__, prog_name="xloom")
def cli() -> None:
    """Run, rewrite and look at HLO programs.

    \b
    A program is a file of HLO text (.hlo), a serialised HloModuleProto (.pb),
    or StableHLO (.mlir; needs the extra `jax`); "-" reads standard input.

    \b
      xloom info model.hlo                      what is in it
      xloom run model.hlo --input x.npy         run it
      xloom opt --passes "expand,dce" model.hlo rewrite it
      xloom diff before.hlo after.hlo           what is different, and which value first
      xloom reduce model.hlo --crash            cut it down to what still fails
      xloom bench model.hlo --profile           where does its time go
      xloom show model.hlo --passes             the graph, the passes, the memory: a page
      xloom export model.hlo                    a library for C, without Python
      xloom ops reduce-window                   what an opcode means
      xloom library                             compile what most programs share
      xloom run-python train.py                 JAX's CPU is xloom
      xloom trace trace.process*.json -o a.json join traces of several processes
    """


for _command in (run, opt, diff, reduce, bench, show, export, info, ops, library, run_python, trace):
    cli.add_command(_command)


def show_error(error: XloomError) -> None:
    """The error on standard error: place, message, source line with a caret, and what to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    text = Text()
    if error.span is not None:
        text.append(f"{error.span}: ", style="bold")
    text.append("error: ", style="bold red")
    text.append(error.message)
    if error.where:
        text.append(f" (at {error.where})", style="dim")
    console.print(text)
    if error.span is not None and error.span.source_line:
        console.print(Text(error.span.caret()))
    if error.hint:
        console.print(Text(f"  hint: {error.hint}", style="cyan"))


def main() -> None:
    """The entry point: exit status 1 and a message for errors that are the program's or the caller's."""
    try:
        cli(standalone_mode=False)
        sys.stdout.flush()
    except XloomError as error:
        show_error(error)
        sys.exit(1)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # whoever read our output has gone; nothing more can be said, not even by the interpreter when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        show_error(
            XloomError(
                str(error), hint="the operating system says so: look at the path, its rights, and the space there"
            )
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
