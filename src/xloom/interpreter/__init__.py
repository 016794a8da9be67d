"""HLO evaluated with NumPy: slow, readable, exact about edge cases; the oracle for everything else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'xloom.interpreter' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
