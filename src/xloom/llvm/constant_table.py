"""Arrays of constants in LLVM modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir


def constant_table(module: ir.Module, name: str, element: ir.Type, values: Sequence[Any]) -> ir.GlobalVariable:
    """An array of `values`, each of type `element`, private to the module."""
    kind = ir.ArrayType(element, len(values))
    table = ir.GlobalVariable(module, kind, name)
    table.initializer, table.global_constant, table.linkage = ir.Constant(kind, values), True, "internal"
    return table
