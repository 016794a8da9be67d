"""xloom export."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False),
    help="lib<name>.so here by default; an object file if it ends with .o.",
)  # fmt: skip
@click.option("--name", default="", help="What its functions' names begin with; by default the file's name.")
@click.option("--header", type=click.Path(dir_okay=False), help="The C header; by default <name>.h beside the output.")
@click.option(
    "--weights", type=click.Path(dir_okay=False), help="Puts the constants into a file, which is mapped at run time."
)
@click.option(
    "--target", default="", help="The processor: host, x86-64-v3, znver4, ...; by default this machine's level."
)
@click.option("--threads", type=click.IntRange(1, 1024), default=None, help="The most; by default as many as here.")
@click.option(
    "--link", "linked", multiple=True, type=click.Path(exists=True, dir_okay=False),
    help="A source in C or C++, object file or library that defines what custom calls call.",
)  # fmt: skip
@click.option(
    "--include", "include_dirs", multiple=True, type=click.Path(exists=True, file_okay=False),
    help="Where these sources find their headers.",
)  # fmt: skip
@click.option("--lapack", default="", help="LAPACK's library, where it is called: openblas, or a file.")
def export(
    file: str,
    output: str | None,
    name: str,
    header: str | None,
    weights: str | None,
    target: str,
    threads: int | None,
    linked: tuple[str, ...],
    include_dirs: tuple[str, ...],
    lapack: str,
) -> None:
    """Compile a program ahead of time, for C and C++ without Python.

    FILE is HLO, StableHLO, or a .pt2 that torch.export.save wrote; functions of JAX are exported from Python:
    xl.export(jax.jit(f), args).save("libf.so"). What comes out is a shared library or an object file, and a C header
    that says how to call it.

    \b
      xloom export model.hlo                             libmodel.so and model.h
      xloom export model.pt2 --weights model.weights     the weights in a file of their own
      xloom export model.hlo -o model.o --target x86-64-v3
      xloom export model.hlo --link kernels.c            which has the custom calls' functions
      xloom export model.mlir --lapack openblas          for svd, eigh, qr, ... of JAX
      cc main.c -L. -lmodel -Wl,-rpath,. -o main
    """
    from xloom.aot import export as compiled
    from xloom.aot.interface import identifier

    name = identifier(name or Path(file).stem)
    with Console(stderr=True, highlight=False).status("compiling") as status:
        program = compiled(file, name=name, target=target, threads=threads or 0)
        status.update("linking")
        saved = program.save(
            output or f"lib{name}.so", header=header, weights=weights, link_with=linked, include_dirs=include_dirs,
            lapack=lapack,
        )  # fmt: skip
    for path in (saved.program, saved.header, saved.weights):
        if path is not None:
            click.echo(f"{path}  {path.stat().st_size / 2**10:,.0f} KiB")
