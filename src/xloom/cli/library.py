"""xloom library."""

from __future__ import annotations

import time

import click
from rich.console import Console
from rich.progress import track

import xloom
from xloom.compilation_cache.folder import cache_dir, cache_enabled
from xloom.errors import XloomError


@click.command()
def library() -> None:
    """Compile the kernels that most programs share, once a machine.

    Matrix products and convolutions of every usual type, layout and window: their machine code serves all sizes, is
    kept in the cache on disk, and need not be made when a program that has them is compiled. It takes some seconds; a
    program that meets a kernel which is not there adds it.
    """
    from xloom.compilation_cache import cache
    from xloom.cpu.library.programs import programs

    if not cache_enabled():
        raise XloomError("XLOOM_CACHE=0 keeps nothing", hint="unset it to build the library")
    console = Console(stderr=True)
    start = time.perf_counter()
    for text in track(list(programs()), "compiling", console=console, transient=True):
        xloom.compile(xloom.parse(text))
    cache.flush()
    console.print(f"built in {time.perf_counter() - start:.1f} s, kept in {cache_dir()}", highlight=False)
