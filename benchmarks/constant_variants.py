"""A process that compiles programs with a constant of the compiler changed, each in a child of its own.

A child is forked before anything was compiled: nothing that was remembered under the constant's old value is left.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
import multiprocessing
import pkgutil
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import numpy as np

import xloom as xl
from benchmarks.sides import leaves
from benchmarks.timing import Run, block, calls_a_block
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.module import Module
from xloom.llvm.module_partitioning import parts_of
from xloom.llvm.target import process_target

ROOMS = ("codegen", "cpu", "llvm")
"""Where constants are that code is chosen by."""
_TOLERANCE = 1e-3
_FORK = multiprocessing.get_context("fork")


class VariantError(Exception):
    """A child could not compile or run its program."""


# --- the constant


@lru_cache(maxsize=1)
def _importers() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """By module and name, the modules that import it by name, and what they call it. All modules are imported then."""
    found = defaultdict(list)
    for room in ROOMS:
        package = importlib.import_module(f"xloom.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"xloom.{room}."):
            module = importlib.import_module(info.name)
            tree = ast.parse(Path(module.__file__ or "").read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        found[node.module, alias.name].append((info.name, alias.asname or alias.name))
    return found


def value_of(module: str, name: str) -> Any:
    """A constant's value; `module` is its name below `xloom`."""
    return getattr(importlib.import_module(f"xloom.{module}"), name)


def set_constant(module: str, name: str, value: Any) -> None:
    """Changes it in its module and in those that import it by name."""
    full = f"xloom.{module}"
    for user, alias in [(full, name), *_importers()[full, name]]:
        if hasattr(sys.modules[user], alias):  # it may be imported in a function
            setattr(sys.modules[user], alias, value)


# --- the child


class _Child:
    """What a child does, by the names of what it is asked."""

    def __init__(self, module: Module, arguments: Sequence[np.ndarray]):
        self._module, self._arguments = module, arguments
        self._run: Run = lambda: None

    def emit(self) -> str:
        """What the program's LLVM IR is, how LLVM gets it, and which passes it runs."""
        _, _, program = lowered(prepared(self._module), process_target())
        modules = [(program.main, program.main_pipeline), *((m.text, m.pipeline) for m in program.modules.values())]
        parts = [f"{pipeline} {part}" for text, pipeline in modules for part in parts_of(text)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def compile(self) -> float:
        """Seconds that it takes."""
        start = time.perf_counter()
        executable = xl.compile(self._module)
        seconds = time.perf_counter() - start
        self._run = lambda: executable(*self._arguments)
        return seconds

    def sums(self) -> list[tuple[float, float]]:
        """Of each result, sums that differ where it does: of elements times their numbers, and of their magnitudes."""
        return [_sums(np.asarray(array)) for array in leaves(self._run())]

    def calls(self) -> int:
        """How many calls of what is compiled make a block."""
        gc.collect()
        gc.disable()
        return calls_a_block(self._run)

    def block(self, calls: int) -> float:
        """Seconds of one of so many, by the clock."""
        return block(self._run, calls).wall


def _sums(array: np.ndarray) -> tuple[float, float]:
    values = np.nan_to_num(np.abs(array).astype(np.float64).ravel(), posinf=1.0)
    weights = np.linspace(1.0, 2.0, values.size)
    return float(values @ weights), float(values.sum())


def agree(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> bool:
    """True when sums of results are those of equal ones, but for another order of additions."""
    pairs = zip(first, second, strict=True)
    return all(np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE) for a, b in pairs)


def _serve(connection: Connection, change: tuple[str, str, Any], child: _Child) -> None:
    set_constant(*change)
    while True:
        try:
            name, *arguments = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = True, getattr(child, name)(*arguments)
        except Exception as error:  # whatever it is, it is the answer
            answer = False, f"{type(error).__name__}: {error}".splitlines()[0]
        connection.send(answer)


class Variant:
    """A child with a constant changed, to compile a program and run it on arguments."""

    def __init__(self, change: tuple[str, str, Any], module: Module, arguments: Sequence[np.ndarray] = ()):
        _importers()  # once, and not in each child
        self._connection, theirs = _FORK.Pipe()
        child = _Child(module, arguments)
        self._process = _FORK.Process(target=_serve, args=(theirs, change, child), daemon=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # JAX's threads, of which a child uses nothing
            self._process.start()
        theirs.close()

    def ask(self, name: str, *arguments: Any) -> Any:
        """What a method of `_Child` gives. Raises VariantError for any failure of it."""
        self.begin(name, *arguments)
        return self.answer()

    def begin(self, name: str, *arguments: Any) -> None:
        """The same without waiting: `answer` gives it."""
        with suppress(ConnectionError):  # of which `answer` will tell
            self._connection.send((name, *arguments))

    def answer(self) -> Any:
        """Of what was begun last."""
        try:
            worked, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            raise VariantError("its process ended") from None
        if not worked:
            raise VariantError(answer)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()
