"""Rewrites of modules, one pass per file: who asks this package loads them all, and who asks a file what that needs."""

# ruff: noqa: F405

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xloom.passes.every_pass import *  # noqa: F403

__all__ = [
    "PASSES",
    "AlgebraicSimplification",
    "AllReduceCombiner",
    "AsyncSimplification",
    "BatchNormExpansion",
    "BuiltInCallExpansion",
    "CallInlining",
    "CallNaming",
    "ChannelsLast",
    "ChoiceSinking",
    "CollectiveExpansion",
    "CollectiveSimplification",
    "CommonSubexpressionElimination",
    "Compare",
    "ConstantFolding",
    "DeadCodeElimination",
    "DilatedInputPhases",
    "DilatedInputSimplification",
    "DynamicPadding",
    "EffectOrdering",
    "Expand",
    "FusionInlining",
    "Inlining",
    "IntegerRangeSimplification",
    "LapackCallExpansion",
    "LayoutSimplification",
    "LinearAlgebraBlocking",
    "LinearAlgebraWidening",
    "LookupTables",
    "MaskSharing",
    "NarrowOperands",
    "OrderedOperandRounding",
    "Outline",
    "Outlined",
    "Pass",
    "PassRun",
    "Pattern",
    "ProductBlocking",
    "ProductWidening",
    "ReductionWidening",
    "ResultRounding",
    "RowMajorEntry",
    "ScanExpansion",
    "SignSharing",
    "SingleWindowSimplification",
    "SpmdPartitioning",
    "TupleSimplification",
    "UpdateAccumulation",
    "UpdatePredication",
    "WhileLoopInvariantCodeMotion",
    "WhileLoopSimplification",
    "WrongValueError",
    "ZeroSizedElimination",
    "add_pattern",
    "outline_pattern",
    "parse_pipeline",
    "pattern_from_jax",
    "pipeline_text",
    "register",
    "run_passes",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'xloom.passes' has no attribute {name!r}")
    return getattr(import_module("xloom.passes.every_pass"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
