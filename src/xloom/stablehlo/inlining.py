"""Calls of functions that become part of their callers, in MLIR, where jaxlib's propagation of shardings needs it."""

from __future__ import annotations

from typing import Any

from xloom.calls.partitioning import partitioners
from xloom.stablehlo.bindings import Bindings

_NEED_IT = "0.9."
"""Versions of jaxlib some of which die when they propagate shardings over calls."""
_SUMS = "unreduced={"
"""What a sharding says of terms of sums, which are added where they are handed to a function."""


def _has_own_partitioner(text: str) -> bool:
    """Whether a framework cuts a call itself: it knows whole axes of its mesh, and a function's arguments and results
    have as much of an axis as divides them."""
    return any(f"@{target}(" in text for target in partitioners)


def inline_for_propagation(bindings: Bindings, module: Any, text: str) -> None:
    """Leaves no call in a module, whose `text` is given, if jaxlib's propagation of shardings needs it."""
    if not (_SUMS in text or bindings.version.startswith(_NEED_IT) or _has_own_partitioner(text)):
        return
    functions = {f.attributes["sym_name"].value: f for f in module.body if f.operation.name == "func.func"}
    while calls := bindings.operations(module.operation, "func.call"):
        for call in calls:
            _inline(bindings, call, functions[call.attributes["callee"].value])
    for function in functions.values():
        if not _is_public(function):
            function.erase()


def _is_public(function: Any) -> bool:
    return "sym_visibility" not in function.attributes or function.attributes["sym_visibility"].value == "public"


def _inline(bindings: Bindings, call: Any, function: Any) -> None:
    """Puts clones of a function's operations before a call, in whose place their results are."""
    ir = bindings.ir
    (block,) = function.regions[0].blocks
    values = dict(zip(block.arguments, call.operands, strict=True))

    def connect(operation: Any) -> Any:
        for k, operand in enumerate(operation.operands):
            if operand in values:
                operation.operands[k] = values[operand]
        return ir.WalkResult.ADVANCE

    for operation in block.operations:
        if operation.operation.name == "func.return":
            for result, value in zip(call.results, operation.operands, strict=True):
                result.replace_all_uses_with(values.get(value, value))
            continue
        clone = operation.operation.clone(ir.InsertionPoint(call))
        values.update(zip(operation.results, clone.results, strict=True))
        clone.walk(connect)
    call.erase()
