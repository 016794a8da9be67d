"""xloom info."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import PackageNotFoundError, version

import click
from rich.console import Console
from rich.table import Table

import xloom
from xloom.cli.program import load_code, load_option, read_program
from xloom.hlo.module import Module

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "protobuf", "jax", "jaxlib", "torch")


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@load_option
def info(file: str | None, libraries: tuple[str, ...]) -> None:
    """Say what is in a program; without one, what is installed.

    \b
      xloom info
      xloom info model.hlo --load kernels.py
    """
    console = Console(soft_wrap=True, highlight=False)
    if file is None:
        _installed(console)
        return
    load_code(libraries)
    _program(console, read_program(file))


def _installed(console: Console) -> None:
    console.print(f"xloom {xloom.__version__}, Python {platform.python_version()}, {platform.machine()}")
    for package in _PACKAGES:
        try:
            console.print(f"  {package:10} {version(package)}")
        except PackageNotFoundError:
            console.print(f"  {package:10} not installed")


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def _program(console: Console, module: Module) -> None:
    from xloom.calls import is_registered
    from xloom.interpreter.custom_call import BUILT_IN

    instructions = list(module.instructions)
    console.print(f"{module.name}: {len(instructions)} instructions in {len(module.computations)} computations")
    for parameter in module.entry.parameters:
        console.print(
            f"  parameter {parameter.name}: {parameter.shape}  {_bytes(parameter.shape.nbytes)}", markup=False
        )
    result = module.entry.root.shape
    console.print(f"  result: {result}  {_bytes(result.nbytes)}", markup=False)
    constants = sum(i.shape.nbytes for i in instructions if i.opcode == "constant")
    console.print(f"  constants: {_bytes(constants)}")
    table = Table("opcode", "count", box=None)
    for opcode, count in Counter(i.opcode for i in instructions).most_common():
        table.add_row(opcode, str(count))
    console.print(table)
    targets = Counter(i["custom_call_target"] for i in instructions if i.opcode == "custom-call")
    for target, count in sorted(targets.items()):
        state = "registered" if is_registered(target) else "built in" if target in BUILT_IN else "not registered"
        console.print(f"  custom call {target}: {count}, {state}", markup=False)
