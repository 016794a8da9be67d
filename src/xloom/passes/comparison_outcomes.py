"""What can come of comparing a module's values before and after a pass."""

from __future__ import annotations

from collections import Counter

from xloom.errors import EvaluationError, PassError
from xloom.hlo.module import Module
from xloom.interpreter.registry import Value

outcomes: Counter[str] = Counter()
"""What came of the comparisons of this process."""


class WrongValueError(PassError):
    """A pass changed the values of a module."""

    before: Module
    """What the pass was given."""
    arguments: list[Value]


class NotComparedError(EvaluationError):
    """There is nothing to compare."""
