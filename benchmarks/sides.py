"""The two compilers, behind one interface: StableHLO in, a function without arguments and its numbers out."""

from __future__ import annotations

import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import xloom as xl
from benchmarks.programs import Program

_COMPILES = 3
_LONG_SECONDS = 1.0  # a compilation of this length is not repeated: noise is small beside it


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

    def build() -> tuple[float, jax.stages.Compiled]:
        jax.clear_caches()
        lowered = program.lower()
        start = time.perf_counter()
        compiled = lowered.compile()
        return time.perf_counter() - start, compiled

    seconds, compiled = _repeated(build)
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


def compile_ours(program: Program, arguments: Sequence[np.ndarray]) -> Compiled:
    """By xloom's CPU compiler; the conversion from StableHLO is part of it."""
    data = bytecode(program)

    def build() -> tuple[float, Any]:
        with kernel_cache(None):
            return _timed_build(data)

    seconds, executable = _repeated(build)

    def run() -> Any:
        return executable(*arguments)

    def results() -> list[np.ndarray]:
        return list(_leaves(run()))

    return Compiled(run, results, seconds, executable.memory.peak_bytes)


def cached_compile_seconds(program: Program) -> float:
    """How long xloom takes for a program whose machine code is on disk."""
    data = bytecode(program)
    with tempfile.TemporaryDirectory() as folder:
        with kernel_cache(folder):
            _timed_build(data)

        def build() -> tuple[float, Any]:
            with kernel_cache(folder):
                return _timed_build(data)

        return _repeated(build)[0]


@contextmanager
def kernel_cache(folder: str | None) -> Iterator[None]:
    """Where xloom keeps machine code inside the block: only in `folder`, or nowhere."""
    names = ("XLOOM_CACHE", "XLOOM_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    os.environ["XLOOM_CACHE"] = "0" if folder is None else "1"
    os.environ["XLOOM_CACHE_DIR"] = folder or ""
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def bytecode(program: Program) -> bytes:
    """The program as both compilers get it, in MLIR's binary form."""
    stream = io.BytesIO()
    module: Any = program.lower().compiler_ir("stablehlo")
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _timed_build(data: bytes) -> tuple[float, Any]:
    start = time.perf_counter()
    executable = xl.compile(xl.from_stablehlo(data))
    return time.perf_counter() - start, executable


def _leaves(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, tuple):
        for element in value:
            yield from _leaves(element)
    else:
        yield np.asarray(value)


# --- both


def _repeated(build: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
    """The median of a few times, and the last executable."""
    times = []
    while True:
        seconds, executable = build()
        times.append(seconds)
        if len(times) == _COMPILES or seconds > _LONG_SECONDS:
            return statistics.median(times), executable
