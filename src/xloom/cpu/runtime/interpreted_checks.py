"""Checks by the interpreter: of any program, and at each run of one that has arrays of dynamic size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from xloom.calls.sanitizer import sanitize
from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable
from xloom.errors import CheckError, CustomCallError
from xloom.hlo.module import Module
from xloom.interpreter.first_fault import evaluate_checked


def interpret_checked(module: Module, checks: Collection[str], arguments: Sequence[Any], infeed: Sequence[Any]) -> None:
    """Raises CheckError that says where it happens, other errors where the interpreter cannot run the program."""
    try:
        with sanitize() if "unwritten" in checks else nullcontext():
            evaluate_checked(module, *arguments, checks=checks, infeed=infeed)
    except CustomCallError as error:
        if "did not write" not in error.message:
            raise
        found = CheckError(error.message, where=error.where)
        found.check = "unwritten"
        raise found from error


class InterpretedChecks(DynamicExecutable):
    """Runs as `DynamicExecutable` does, slowly. Raises CheckError where the program does what it is checked for.

    Native code cannot look by itself: what lies between the size of an array and its bound may be anything.
    """

    def __init__(self, executable: DynamicExecutable, checks: Collection[str]):
        super().__init__(executable.module, executable.padded)
        self._checks = checks

    def __call__(self, *arguments: Any, infeed: Iterable[Any] = (), **keywords: Any) -> Any:
        """See DynamicExecutable."""
        fed = list(infeed)
        interpret_checked(self.module, self._checks, arguments, fed)
        return super().__call__(*arguments, infeed=fed, **keywords)
