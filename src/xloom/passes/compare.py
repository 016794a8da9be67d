"""Translation validation as a hook: each pass's output has the values of its input, or the pass is to blame."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from xloom.errors import EvaluationError
from xloom.hlo.module import Module
from xloom.passes.base import Pass
from xloom.passes.comparison_outcomes import NotComparedError, outcomes


class NotComparedWarning(UserWarning):
    """What a pass did was not checked."""


@dataclass
class Compare:
    """Runs the module on random arguments with the interpreter, before and after each pass.

    Results must be equal, NaN to NaN and each zero to its own kind; with `rtol`, floats close; with `rounding`, such as
    other roundings of the operators could make them. Loops that are there before and after are also compared as if they
    ended after 0 to 3 iterations, and, where their state has the shape it had, state by state.

    Custom calls that nothing is registered for mean what they carry. Where there is too much to evaluate, the pass is
    run on the module in small sizes instead. What cannot be compared is an error; or else, unless it is to be `strict`,
    it is noted in `skipped`, and code that a program calls is not run.
    """

    seed: int = 0
    samples: int = 2
    rtol: float = 0.0
    rounding: bool = False
    strict: bool = True
    skipped: list[str] = field(default_factory=list)
    values: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What the module gives that the next pass gets."""
    _before: Module | None = None

    def start(self, module: Module) -> None:
        """Notes what to compare with."""
        self._before, self.values = module.clone(""), {}

    def after(self, module: Module, pass_: Pass, number: int) -> None:
        """Raises WrongValueError that names the first differing element, the arguments, and the module before."""
        from xloom.passes.translation_validation import compare  # with which goes much that compiling needs not

        before, self._before = self._before, module.clone("")
        assert before is not None
        what = f"pass {number} ({pass_})"
        try:
            compare(self, before, self._before, pass_, what)
        except NotComparedError as error:
            text = f"{what} cannot be compared: {error.message}"
            if self.strict:
                raise EvaluationError(text, where=error.where, hint=error.hint) from error
            self.skipped.append(text)
            warnings.warn(f"passes are not compared: {error.message}", NotComparedWarning, stacklevel=2)
            outcomes[f"not compared: {error.message}"] += 1
