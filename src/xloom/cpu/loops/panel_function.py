"""Functions that compute parts of an array, or with parts of one: `cpu/loops/panel_emission.py` makes them."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.llvm.types import I64, POINTER, VOID

LINES = ir.FunctionType(VOID, [POINTER, POINTER, *[I64] * 5])
"""`void(ptr context, ptr target, i64 apart, i64 first, i64 step, i64 lines, i64 length)`: computes `lines` runs of
`length` elements of an array, of which the first begins at element `first` in row-major order, and each other one
`step` elements later; they go to `target`, `apart` elements from one to the next. Of an array that is computed of sums,
the first word after the function is its pointer, and `target` has the sums instead."""


def call_lines(b: ir.IRBuilder, context: ir.Value, arguments: Sequence[ir.Value]) -> None:
    """Calls the function whose address is the first word of `context`; the pointers to what it reads follow it."""
    b.call(b.load(context, typ=LINES.as_pointer()), [context, *arguments])
