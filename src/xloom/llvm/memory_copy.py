"""Copies of bytes."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.types import I1, I8, I64, POINTER, VOID

_NAME, _CLEAR = "llvm.memcpy.p0.p0.i64", "llvm.memset.p0.i64"


def copy(b: ir.IRBuilder, target: ir.Value, source: ir.Value, nbytes: ir.Value | int) -> None:
    """Copies so many bytes, which are not the same."""
    function = b.module.globals.get(_NAME)
    function = function or ir.Function(b.module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I1]), _NAME)
    b.call(function, [target, source, I64(nbytes) if isinstance(nbytes, int) else nbytes, I1(0)])


def clear(b: ir.IRBuilder, target: ir.Value, nbytes: ir.Value) -> None:
    """Makes so many bytes 0."""
    function = b.module.globals.get(_CLEAR)
    function = function or ir.Function(b.module, ir.FunctionType(VOID, [POINTER, I8, I64, I1]), _CLEAR)
    b.call(function, [target, I8(0), nbytes, I1(0)])
