"""Copies of bytes."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.intrinsics import declared
from xloom.llvm.types import I1, I8, I64, POINTER, VOID


def copy(b: ir.IRBuilder, target: ir.Value, source: ir.Value, nbytes: ir.Value | int) -> None:
    """Copies so many bytes, which are not the same."""
    function = declared(b.module, "memcpy", [POINTER, POINTER, I64], VOID, [POINTER, POINTER, I64, I1])
    b.call(function, [target, source, I64(nbytes) if isinstance(nbytes, int) else nbytes, I1(0)])


def fill(b: ir.IRBuilder, target: ir.Value, byte: int, nbytes: ir.Value) -> None:
    """Sets so many bytes to a number."""
    function = declared(b.module, "memset", [POINTER, I64], VOID, [POINTER, I8, I64, I1])
    b.call(function, [target, I8(byte), nbytes, I1(0)])
