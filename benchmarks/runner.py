"""Measures programs one after the other, each in a child process."""

from __future__ import annotations

import compileall
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import xloom
from benchmarks.child import ChildError, run_child
from benchmarks.machine import Machine
from benchmarks.programs import Program
from benchmarks.result import Result

_MACHINE_SECONDS = 120.0


def measure_machine() -> Machine:
    """What the machine can do with the cores of this process."""
    with TemporaryDirectory() as cache:
        return Machine(**run_child(["benchmarks.machine"], cache, _MACHINE_SECONDS))


def measure(
    programs: list[Program],
    repeats: int,
    timeout: float,
    stage: Callable[[Program, str], None],
) -> Iterator[Result]:
    """A result a program, whatever happens to its process."""
    # as an installation does; else the first program of a family would be charged for compiling Python
    compileall.compile_dir(Path(xloom.__file__).parent, quiet=2)
    for program in programs:
        yield _measure_one(program, repeats, timeout, lambda text, p=program: stage(p, text))


def _measure_one(program: Program, repeats: int, timeout: float, stage: Callable[[str], None]) -> Result:
    reached = "start"

    def line(data: dict) -> None:
        nonlocal reached
        if "stage" in data:
            reached = data["stage"]
            stage(reached)

    try:
        with TemporaryDirectory() as cache:  # the trial's compilation finds what the package brings, and nothing else
            # the bytes themselves: lowered elsewhere, the same program names other lines of Python
            file = str(Path(cache) / "program.mlirbc")
            answer = run_child(["benchmarks.trial", program.name, str(repeats), file], cache, timeout, line)
            result = Result.from_json(answer["result"])
            if result.status != "ok":
                return result
            line({"stage": "compile from the cache"})
            again = run_child(["benchmarks.recompile", file], cache, timeout)
            return replace(result, cached_compile=again["seconds"])
    except ChildError as error:
        status = "not compiled" if reached == "xloom compiles" else "failed"
        return Result(program.name, status, f"{reached}: {error}")
