"""xloom library."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import track

import xloom
from xloom.compilation_cache.folder import cache_dir, cache_enabled
from xloom.errors import XloomError

if TYPE_CHECKING:
    from xloom.llvm.target import Target


@click.command()
@click.option(
    "--ship",
    is_flag=True,
    help="Write a file into the package instead, which is used as long as the sources of kernels stay what they are.",
)
@click.option("--target", "targets", metavar="NAME", multiple=True, help="With --ship: for these, not this machine.")
def library(ship: bool, targets: tuple[str, ...]) -> None:
    """Compile the kernels that most programs share, once a machine.

    Matrix products and convolutions of every usual type, layout and window: their machine code serves all sizes, is
    kept in the cache on disk, and need not be made when a program that has them is compiled. It takes some minutes; a
    program that meets a kernel which is not there adds it.

    With --ship the kernels become a part of the installed package (`make wheel` does it for every level of x86-64),
    unless those that are there were made of the same sources.
    """
    from xloom.cpu.library.programs import programs
    from xloom.llvm.target import process_target, target_named

    console = Console(stderr=True)
    if ship:
        for target in [target_named(name) for name in targets] or [process_target()]:
            _ship(target, console)
        return
    if targets:
        raise click.UsageError("--target goes with --ship: the cache has kernels for this machine alone")
    from xloom.compilation_cache import cache

    if not cache_enabled():
        raise XloomError("XLOOM_CACHE=0 keeps nothing", hint="unset it to build the library, or --ship it")
    start = time.perf_counter()
    for text in track(list(programs()), "compiling", console=console, transient=True):
        xloom.compile(xloom.parse(text))
    cache.flush()
    console.print(f"built in {time.perf_counter() - start:.1f} s, kept in {cache_dir()}", highlight=False)


def _ship(target: Target, console: Console) -> None:
    from xloom.compilation_cache.shipped import file_of, shipped
    from xloom.cpu.library.programs import programs
    from xloom.cpu.library.shipping import ship

    if shipped(target.name) is not None:
        console.print(f"{target.name}: up to date, in {file_of(target.name)}", highlight=False)
        return
    start = time.perf_counter()
    texts = list(programs())
    path = ship(track(texts, f"compiling for {target.name}", console=console, transient=True), target)
    size, seconds = path.stat().st_size / (1 << 20), time.perf_counter() - start
    console.print(f"{target.name}: {size:.1f} MiB in {seconds:.1f} s, in {path}", highlight=False)
