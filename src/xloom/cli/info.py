"""xloom info."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import PackageNotFoundError, version

import click
from rich.console import Console
from rich.table import Table

import xloom
from xloom.cli.program_input import load_code, load_option, read_program
from xloom.cli.variables import variables_text
from xloom.hlo.module import Module

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "protobuf", "jax", "jaxlib", "torch")


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--memory", is_flag=True, help="The bytes that a run needs, and the largest arrays.")
@click.option(
    "--environment",
    is_flag=True,
    help="The variables that are read, their values, and where these come from.",
)
@load_option
def info(file: str | None, memory: bool, environment: bool, libraries: tuple[str, ...]) -> None:
    """Say what is in a program, and what of it has no native code; without one, what is installed.

    \b
      xloom info
      xloom info model.hlo --load kernels.py
      xloom info --memory model.hlo
      xloom info --environment
    """
    console = Console(soft_wrap=True, highlight=False)
    if environment:
        if file is not None or memory:
            raise click.UsageError("--environment is of no program, and stands alone")
        click.echo(variables_text(), nl=False)
        return
    if file is None:
        if memory:
            raise click.UsageError("--memory is of a program: name its file")
        _installed(console)
        return
    load_code(libraries)
    module = read_program(file)
    _program(console, module)
    _native(console, module)
    if memory:
        from xloom.cpu.printers import memory_text

        click.echo("memory")
        click.echo(memory_text(module), nl=False)


def _installed(console: Console) -> None:
    from xloom.distributed import library

    console.print(f"xloom {xloom.__version__}, Python {platform.python_version()}, {platform.machine()}")
    for package in _PACKAGES:
        try:
            console.print(f"  {package:10} {version(package)}")
        except PackageNotFoundError:
            console.print(f"  {package:10} not installed")
    mpi = library.find()
    state = f"{library.version()}, {mpi.path}" if mpi.path else f"none: {mpi.why_not}"
    console.print(f"  {'MPI':10} {state}", markup=False)


def _program(console: Console, module: Module) -> None:
    from xloom.calls import is_registered
    from xloom.cpu.printers.names import bytes_text
    from xloom.interpreter.custom_call import BUILT_IN

    instructions = list(module.instructions)
    console.print(f"{module.name}: {len(instructions)} instructions in {len(module.computations)} computations")
    for parameter in module.entry.parameters:
        console.print(
            f"  parameter {parameter.name}: {parameter.shape}  {bytes_text(parameter.shape.nbytes)}", markup=False
        )
    result = module.entry.root.shape
    console.print(f"  result: {result}  {bytes_text(result.nbytes)}", markup=False)
    constants = sum(i.shape.nbytes for i in instructions if i.opcode == "constant")
    console.print(f"  constants: {bytes_text(constants)}")
    table = Table("opcode", "count", box=None)
    for opcode, count in Counter(i.opcode for i in instructions).most_common():
        table.add_row(opcode, str(count))
    console.print(table)
    targets = Counter(i["custom_call_target"] for i in instructions if i.opcode == "custom-call")
    for target, count in sorted(targets.items()):
        state = "registered" if is_registered(target) else "built in" if target in BUILT_IN else "not registered"
        console.print(f"  custom call {target}: {count}, {state}", markup=False)


def _native(console: Console, module: Module) -> None:
    from xloom.cpu.coverage import missing

    errors = missing(module)
    if not errors:
        console.print("  native: all of it")
    for error in errors:
        place = f" (at {error.where})" if error.where else ""
        console.print(f"  not native: {error.message}{place}", markup=False)
