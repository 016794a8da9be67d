"""xloom run."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

import xloom
from xloom.checks import VALUE_CHECKS, known_value_checks
from xloom.cli.on_devices import OnDevices, interpreted_devices
from xloom.cli.on_gpu import on_gpu
from xloom.cli.program_arguments import program_arguments
from xloom.cli.program_input import load_code, load_option, program_argument, read_program
from xloom.cpu.runtime.spmd_executable import is_spmd
from xloom.cuda.names import CALL_PLATFORM
from xloom.errors import LoweringError, XloomError
from xloom.hlo.module import Module
from xloom.interpreter.registry import Value
from xloom.process_traces import check_writable
from xloom.trace import trace

Program = Callable[..., Any]


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
@click.option(
    "--on",
    type=click.Choice(["cpu", "interpreter", "emulator", "cuda"]),
    default="cpu",
    show_default=True,
    help="Native code, NumPy an operator, the kernels of an emulated GPU, with all accesses checked, or a GPU.",
)
@click.option(
    "--target", metavar="NAME", default="sm_80", show_default=True, help="The GPU whose kernels --on emulator runs."
)
@click.option(
    "--allow-interpreter",
    is_flag=True,
    help="Run the program on the interpreter when some operator of it has no native code; standard error says so.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of random arguments, of rng operators on the interpreter, and of the order of the emulator's threads.",
)
@click.option("--passes", default="", help='Passes to run first, such as "expand,dce".')
@click.option(
    "--compare",
    type=click.Choice(["jaxlib", "interpreter"]),
    help="Also run on XLA:CPU (needs the extra `jax`) or on the interpreter, and fail when values differ.",
)
@click.option("--tolerance", type=float, default=1e-5, show_default=True, help="Relative tolerance of --compare.")
@click.option("--time", "runs", type=click.IntRange(1), help="Run so often again, and say the median time.")
@click.option(
    "--profile",
    type=click.Path(dir_okay=False),
    help="Write when it compiled and when each kernel ran, for ui.perfetto.dev or chrome://tracing.",
)
@click.option(
    "--output", "-o", type=click.Path(file_okay=False), help="Folder for the results: out0.npy, out1.npy, ..."
)
@click.option(
    "--check-calls",
    is_flag=True,
    help="Only run each custom call that carries HLO as its kernel and as that HLO, and fail where they differ.",
)
@click.option(
    "--check",
    callback=lambda _context, _option, text: _checks(text),
    default="",
    help=f"Fail where values are not as they should be: some of {','.join(VALUE_CHECKS)}.",
)
@click.option("--sanitize", is_flag=True, help="Run custom calls in guarded memory, and report what they do wrong.")
@click.option("--isolate", is_flag=True, help="As --sanitize, each custom call in a process of its own.")
@load_option
def run(
    file: str,
    inputs: tuple[str, ...],
    on: str,
    target: str,
    allow_interpreter: bool,
    seed: int,
    passes: str,
    compare: str | None,
    tolerance: float,
    runs: int | None,
    profile: str | None,
    output: str | None,
    check_calls: bool,
    check: frozenset[str] | None,
    sanitize: bool,
    isolate: bool,
    libraries: tuple[str, ...],
) -> None:
    """Compile a program to native code, run it, and print its results.

    Arguments come from --input files; those that are missing are random. A program of several devices has as many
    threads here, each with these arguments. Every custom call must be registered, by --load. An operator without native
    code is an error, unless the interpreter is asked for or allowed.

    \b
      xloom run axpy.hlo -i a.npy -i x.npy -i y.npy
      xloom run fused.hlo --passes expand          expand custom calls that carry their HLO
      xloom run model.hlo --load kernels.c -o results/
      xloom run model.hlo --compare interpreter    is the compiler right?
      xloom run model.hlo --time 100               how fast is it?
      xloom run model.hlo --profile trace.json     and where does the time go?
      xloom run model.hlo --on interpreter         slow, exact about edge cases
      xloom run model.hlo --on emulator --target sm_90a    kernels for a GPU, where there is none
      xloom run model.hlo --on cuda --time 100     on the first GPU that there is
      xloom run model.hlo --check nan,oob          which instruction makes a NaN, or reads out of range?
      xloom run model.hlo --load k.c --sanitize    does the kernel keep to its buffers?
      xloom run fused.hlo --load k.c --check-calls does it compute what its call carries?
    """
    from xloom.calls import sanitizer, unregistered
    from xloom.interpreter.custom_call import BUILT_IN

    if on == compare:
        raise click.UsageError("the interpreter would be compared with itself: leave out --on or --compare")
    if profile:
        check_writable(Path(profile))
    load_code(libraries)
    module = read_program(file)
    if passes:
        from xloom.passes import run_passes

        run_passes(module, passes)
    if is_spmd(module) and on not in ("cpu", "interpreter"):
        raise click.UsageError("programs of several devices run on the processor, or the interpreter")
    arguments = program_arguments(module, inputs, seed)
    if check_calls:
        from xloom.testing import check_call

        click.echo(str(check_call(module, *arguments, seed=seed)))
        return
    platform = CALL_PLATFORM if on in ("cuda", "emulator") else "Host"
    for error in unregistered(module, platform, known=frozenset(BUILT_IN)):
        raise error
    guarded = sanitizer.sanitize(isolate=isolate) if sanitize or isolate else nullcontext()
    with trace(profile) if profile else nullcontext(), guarded:
        if on == "interpreter":
            program = _interpreted(module, seed, check)
        elif on == "emulator":
            program = _emulated(module, target, seed)
        elif on == "cuda":
            program = on_gpu(module)
        else:
            program = _compiled(module, seed, allow_interpreter, check)
        value = program(*arguments)
    if runs:
        _time(program, arguments, runs)
    if compare:
        _compare(module, arguments, value, compare, tolerance, seed)
    for name, array in _results(module, value):
        if output:
            Path(output).mkdir(parents=True, exist_ok=True)
            np.save(Path(output) / f"{name}.npy", array)
        click.echo(f"{name}: {array.dtype}{list(array.shape)}")
        click.echo(np.array2string(np.asarray(array), threshold=64))
    if compare:
        click.echo(f"equal to {compare} within {tolerance:g}")


def _checks(text: str) -> frozenset[str] | None:
    try:
        return known_value_checks(text.split(",")) if text else None
    except XloomError as error:
        raise click.BadParameter(f"{error.message}: {error.hint}") from error


def _interpreted(module: Module, seed: int, check: frozenset[str] | None = None) -> Program:
    if is_spmd(module):
        if check:
            raise click.UsageError("the interpreter checks programs of one device alone: leave out --on")
        return partial(interpreted_devices, module)
    if not check:
        return lambda *arguments: xloom.evaluate(module, *arguments, seed=seed)
    from xloom.interpreter.first_fault import evaluate_checked

    return lambda *arguments: evaluate_checked(module, *arguments, checks=check, seed=seed)


def _emulated(module: Module, target: str, seed: int) -> Program:
    from xloom.cuda.emulator.executable import emulated

    return emulated(module, target, seed=seed)


def _compiled(module: Module, seed: int, allow_interpreter: bool, check: frozenset[str] | None) -> Program:
    try:
        return OnDevices(module, check) if is_spmd(module) else xloom.compile(module, check=check)
    except LoweringError as error:
        if not allow_interpreter:
            hint = "--allow-interpreter runs it all on the interpreter; `xloom info` lists what else is not native"
            raise LoweringError(error.message, where=error.where, span=error.span, hint=hint) from error
        place = f" (at {error.where})" if error.where else ""
        click.echo(f"on the interpreter, all of it: {error.message}{place}", err=True)
        return _interpreted(module, seed, check)


def _time(program: Program, arguments: list[Value], runs: int) -> None:
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        program(*arguments)
        seconds.append(time.perf_counter() - begin)
    click.echo(f"median of {runs} runs: {statistics.median(seconds) * 1e6:.1f} us", err=True)


def _results(module: Module, value: Value) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a result, or of each device's, with names."""
    if is_spmd(module):
        for number, of_device in enumerate(value):
            for name, array in _named(of_device, "out" if isinstance(of_device, tuple) else "out0"):
                yield f"device{number}.{name}", array
    else:
        yield from _named(value, "out" if isinstance(value, tuple) else "out0")


def _named(value: Value, name: str) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, tuple):
        for k, element in enumerate(value):
            yield from _named(element, f"{name}{'.' if name[-1].isdigit() else ''}{k}")
    elif isinstance(value, np.ndarray | np.generic):
        yield name, np.asarray(value)


def _compare(module: Module, arguments: list[Value], value: Value, other: str, tolerance: float, seed: int) -> None:
    if other == "jaxlib":
        from xloom.stablehlo.reference import run_on_xla_cpu

        if is_spmd(module):
            raise click.UsageError("programs of several devices are compared with the interpreter alone")
        expected = run_on_xla_cpu(module, arguments)
    else:
        expected = [array for _, array in _named(_interpreted(module, seed)(*arguments), "out")]
    ours = [array for _, array in _named(value, "out")]
    for k, (a, b) in enumerate(zip(ours, expected, strict=True)):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        if not np.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True):
            worst = np.nanmax(np.abs(a.astype(wide) - b.astype(wide)))
            click.echo(f"result {k} differs from that of {other} by up to {worst:g}", err=True)
            sys.exit(1)
