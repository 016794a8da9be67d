"""What to do between passes: verify the module, write it to a directory; and how values are compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from xloom.calls.registry import is_registered
from xloom.errors import PassError, VerifyError
from xloom.hlo.module import Module
from xloom.hlo.verify.module import verify
from xloom.interpreter.registry import Value
from xloom.passes.base import Pass
from xloom.passes.carried_hlo import carries_hlo


class Hook(Protocol):
    """Called by `run_passes` before the first pass, and after each pass that changed the module."""

    def start(self, module: Module) -> None:
        """Sees the module before any pass."""

    def after(self, module: Module, pass_: Pass, number: int) -> None:
        """Sees the module after pass `number` (from 1). Raises PassError to stop the pipeline."""


class Verify:
    """Checks the rules of HLO; an invalid module is the fault of the pass that left it."""

    def start(self, module: Module) -> None:
        """Raises VerifyError when the module is invalid to begin with."""
        verify(module)

    def after(self, module: Module, pass_: Pass, number: int) -> None:
        """Raises PassError when the pass broke a rule."""
        try:
            self.start(module)
        except VerifyError as error:
            raise PassError(
                f"pass {number} ({pass_}) left an invalid module: {error.message}",
                where=error.where,
                hint=error.hint or "this is a mistake in the pass; dump the module to see what it did",
            ) from error


@dataclass
class Dump:
    """Writes `00-input.hlo`, then `NN-pass.hlo` after each pass that changed something."""

    directory: Path

    def start(self, module: Module) -> None:
        """Writes the input; makes the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write(module, "00-input")

    def after(self, module: Module, pass_: Pass, number: int) -> None:
        """Writes the module."""
        self._write(module, f"{number:02}-{pass_.name}")

    def _write(self, module: Module, name: str) -> None:
        (self.directory / f"{name}.hlo").write_text(module.to_text(print_large_constants=True), encoding="utf-8")


def with_carried(module: Module) -> Module:
    """`module`; or a copy in which custom calls that carry HLO, and have no kernel registered, are expanded."""
    while True:
        targets = {
            i["custom_call_target"]
            for i in module.instructions
            if carries_hlo(i) and not is_registered(i["custom_call_target"])
        }
        if not targets:
            return module
        from xloom.passes.expand import Expand  # here: few programs have such calls

        module = module.clone("")
        for target in targets:
            Expand(target=target).run(module)


def difference(expected: Value, actual: Value, rtol: float = 0.0, place: str = "result") -> str:
    """Where and how two values differ, or an empty string."""
    if isinstance(expected, tuple) != isinstance(actual, tuple):
        return f"{place} was {type(expected).__name__}, is {type(actual).__name__}"
    if isinstance(expected, tuple):
        if len(expected) != len(actual):
            return f"{place} had {len(expected)} parts, has {len(actual)}"
        for k, (e, a) in enumerate(zip(expected, actual, strict=True)):
            found = difference(e, a, rtol, f"{place}[{k}]")
            if found:
                return found
        return ""
    if not isinstance(expected, np.ndarray | np.generic):
        return ""
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return f"{place} was {expected.dtype}{expected.shape}, is {actual.dtype}{actual.shape}"
    wrong = ~_equal(expected, actual, rtol)
    if not wrong.any():
        return ""
    index = tuple(int(k) for k in np.argwhere(wrong)[0])
    at = "".join(f"[{k}]" for k in index)
    return f"{place}{at} was {expected[index]}, is {actual[index]} ({int(wrong.sum())} of {wrong.size} differ)"


def _equal(a: np.ndarray, b: np.ndarray, rtol: float) -> np.ndarray:
    if a.dtype.kind == "c":
        return _equal(np.real(a), np.real(b), rtol) & _equal(np.imag(a), np.imag(b), rtol)
    if a.dtype.kind in "biu":
        return a == b
    x, y = a.astype(np.float64), b.astype(np.float64)  # small integers of ml_dtypes pass here too, exactly
    with np.errstate(all="ignore"):
        same = ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
        return same if not rtol else same | np.isclose(x, y, rtol, 0.0)
