"""Measures programs one after the other, each in a child process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.child import ChildError, run_child
from benchmarks.machine import Machine
from benchmarks.programs import Program
from benchmarks.result import Result

_MACHINE_SECONDS = 120.0


def measure_machine() -> Machine:
    """What the machine can do with the cores of this process."""
    return Machine(**run_child(["benchmarks.machine"], _MACHINE_SECONDS))


def measure(
    programs: list[Program],
    repeats: int,
    timeout: float,
    stage: Callable[[Program, str], None],
) -> Iterator[Result]:
    """A result a program, whatever happens to its process."""
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
        answer = run_child(["benchmarks.trial", program.name, str(repeats)], timeout, line)
        return Result.from_json(answer["result"])
    except ChildError as error:
        status = "not compiled" if reached == "xloom compiles" else "failed"
        return Result(program.name, status, f"{reached}: {error}")
