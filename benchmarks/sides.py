"""The two compilers, behind one interface: StableHLO in, a function without arguments and its numbers out.

Compile times are of the first compilation in a process: after it, either side could have something in memory.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

import xloom as xl
from benchmarks.programs import PROGRAMS, Program
from xloom.llvm.target import process_target

WARM_UP = PROGRAMS["dispatch/empty"]  # compiled first: what a process pays once is no part of any program


@dataclass(frozen=True)
class Compiled:
    """A program that is ready to run on given arguments."""

    run: Callable[[], Any]  # returns when results are there
    results: Callable[[], list[np.ndarray]]
    compile_seconds: float
    peak_bytes: int


# --- XLA


def compile_xla(program: Program, arguments: Sequence[np.ndarray]) -> Compiled:
    """By jaxlib's XLA:CPU, ahead of time, called through JAX's compiled executable."""
    jax.config.update("jax_enable_compilation_cache", False)
    device = jax.devices("cpu")[0]
    jax.clear_caches()
    lowered = program.lower()
    start = time.perf_counter()
    compiled = lowered.compile()
    seconds = time.perf_counter() - start
    buffers = [jax.device_put(a, device) for a in arguments]

    def run_all() -> Any:
        return jax.block_until_ready(compiled(*buffers))

    def run_one() -> Any:
        return compiled(*buffers)[0].block_until_ready()

    # the general way to wait costs most of a microsecond more, which a small program would show
    run = run_one if len(run_all()) == 1 else run_all

    def results() -> list[np.ndarray]:
        return [np.asarray(r) for r in jax.tree.leaves(run())]

    return Compiled(run, results, seconds, _xla_peak(compiled.memory_analysis()))


def _xla_peak(memory: Any) -> int:
    """Arguments, results and temporary buffers."""
    return (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )


# --- xloom


def compile_ours(data: bytes, arguments: Sequence[np.ndarray]) -> Compiled:
    """By xloom's CPU compiler, with the conversion of the bytecode `data`. Denormals are 0, as they are to XLA."""
    target = replace(process_target(), flushes_denormals=True)
    start = time.perf_counter()
    executable = xl.compile(xl.from_stablehlo(data), target)
    seconds = time.perf_counter() - start

    def run() -> Any:
        return executable(*arguments)

    def results() -> list[np.ndarray]:
        return list(leaves(run()))

    return Compiled(run, results, seconds, executable.memory.peak_bytes)


def bytecode(program: Program) -> bytes:
    """The program as both compilers get it, in MLIR's binary form."""
    stream = io.BytesIO()
    module: Any = program.lower().compiler_ir("stablehlo")
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def leaves(value: Any) -> Iterator[np.ndarray]:
    """The arrays of a result."""
    if isinstance(value, tuple):
        for element in value:
            yield from leaves(element)
    else:
        yield np.asarray(value)
