"""Copies of bytes."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.types import I1, I64, POINTER, VOID

_NAME = "llvm.memcpy.p0.p0.i64"


def copy(b: ir.IRBuilder, target: ir.Value, source: ir.Value, nbytes: ir.Value | int) -> None:
    """Copies so many bytes, which are not the same."""
    function = b.module.globals.get(_NAME)
    function = function or ir.Function(b.module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I1]), _NAME)
    b.call(function, [target, source, I64(nbytes) if isinstance(nbytes, int) else nbytes, I1(0)])
