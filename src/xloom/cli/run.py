"""xloom run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from xloom.cli.program import load_code, load_option, program_argument, read_program
from xloom.errors import ShapeError, XloomError
from xloom.hlo.module import Module
from xloom.interpreter.registry import Value


@click.command()
@program_argument
@click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="A .npy file an argument.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random arguments and of rng operators.")
@click.option("--passes", default="", help='Passes to run first, such as "expand,dce".')
@click.option(
    "--compare",
    type=click.Choice(["jaxlib"]),
    help="Also run on XLA:CPU (needs the extra `jax`), and fail when values differ.",
)
@click.option("--tolerance", type=float, default=1e-5, show_default=True, help="Relative tolerance of --compare.")
@click.option(
    "--output", "-o", type=click.Path(file_okay=False), help="Folder for the results: out0.npy, out1.npy, ..."
)
@load_option
def run(
    file: str,
    inputs: tuple[str, ...],
    seed: int,
    passes: str,
    compare: str | None,
    tolerance: float,
    output: str | None,
    libraries: tuple[str, ...],
) -> None:
    """Run a program and print its results.

    Arguments come from --input files; those that are missing are random. Every custom call must be registered, by
    --load.

    \b
      xloom run axpy.hlo -i a.npy -i x.npy -i y.npy
      xloom run fused.hlo --passes expand          expand custom calls that carry their HLO
      xloom run model.hlo --load kernels.c -o results/
    """
    from xloom.calls import unregistered
    from xloom.interpreter import evaluate
    from xloom.interpreter.custom_call import BUILT_IN

    load_code(libraries)
    module = read_program(file)
    if passes:
        from xloom.passes import run_passes

        run_passes(module, passes)
    for error in unregistered(module, known=frozenset(BUILT_IN)):
        raise error
    arguments = _arguments(module, inputs, seed)
    value = evaluate(module, *arguments, seed=seed)
    if compare:
        _compare(module, arguments, value, tolerance)
    for name, array in _named(value, "out" if isinstance(value, tuple) else "out0"):
        if output:
            Path(output).mkdir(parents=True, exist_ok=True)
            np.save(Path(output) / f"{name}.npy", array)
        click.echo(f"{name}: {array.dtype}{list(array.shape)}")
        click.echo(np.array2string(np.asarray(array), threshold=64))
    if compare:
        click.echo(f"equal to {compare} within {tolerance:g}")


def _arguments(module: Module, inputs: tuple[str, ...], seed: int) -> list[Value]:
    from xloom.interpreter.values import random_argument

    parameters = module.entry.parameters
    if len(inputs) > len(parameters):
        raise ShapeError(f"{len(inputs)} inputs for {len(parameters)} parameters", where=module.name)
    given = [_read(path, p.shape.dtype.numpy) for path, p in zip(inputs, parameters, strict=False)]
    generator = np.random.default_rng(seed)
    return given + [random_argument(p.shape, generator) for p in parameters[len(inputs) :]]


def _read(path: str, dtype: np.dtype) -> np.ndarray:
    try:
        array = np.load(path)
    except (ValueError, EOFError) as error:
        raise XloomError(f"{path} is not an array: {error}", hint="write it with numpy.save") from error
    if not isinstance(array, np.ndarray):
        raise XloomError(f"{path} holds several arrays", hint="write each with numpy.save, and give one --input each")
    # .npy files hold bfloat16 and its like as raw bytes
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array


def _named(value: Value, name: str) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, tuple):
        for k, element in enumerate(value):
            yield from _named(element, f"{name}{'.' if name[-1].isdigit() else ''}{k}")
    elif isinstance(value, np.ndarray | np.generic):
        yield name, np.asarray(value)


def _compare(module: Module, arguments: list[Value], value: Value, tolerance: float) -> None:
    from xloom.stablehlo.reference import run_on_xla_cpu

    expected = run_on_xla_cpu(module, arguments)
    ours = [array for _, array in _named(value, "out")]
    for k, (a, b) in enumerate(zip(ours, expected, strict=True)):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        if not np.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True):
            worst = np.nanmax(np.abs(a.astype(wide) - b.astype(wide)))
            click.echo(f"result {k} differs from jaxlib's by up to {worst:g}", err=True)
            sys.exit(1)
