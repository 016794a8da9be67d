"""HLO evaluated with NumPy: slow, readable, exact about edge cases; the oracle for everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xloom.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from xloom.interpreter.evaluation import evaluate
    from xloom.interpreter.evaluator import FAMILIES, RULES, Evaluator
    from xloom.interpreter.registry import TOKEN

__all__ = ["FAMILIES", "RULES", "TOKEN", "Evaluator", "evaluate"]

# native programs need what values are, and no rules
_LAZY = {
    "FAMILIES": "xloom.interpreter.evaluator",
    "RULES": "xloom.interpreter.evaluator",
    "TOKEN": "xloom.interpreter.registry",
    "Evaluator": "xloom.interpreter.evaluator",
    "evaluate": "xloom.interpreter.evaluation",
}

__getattr__ = lazy_attributes(__name__, _LAZY)
