"""Types and symbols of the functions that sorts by vectors call."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.types import I1, I64, POINTER, VOID

NETWORK = ir.FunctionType(VOID, [POINTER, I64])
SORT = ir.FunctionType(I64, [POINTER, I64, I64, I1, I1])
CONVERT = ir.FunctionType(I1, [POINTER, POINTER, I64])
BACK = ir.FunctionType(VOID, [POINTER, POINTER, I64])
RESTORE = ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, I64])
NUMBER = ir.FunctionType(VOID, [POINTER, POINTER, I64, I64])
PAIR = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64])


def scan_type(bits: int) -> ir.FunctionType:
    """The type of `scan` for elements of so many bits."""
    return ir.FunctionType(I64, [POINTER, I64, I64, ir.IntType(bits)])


def bound_type(bits: int) -> ir.FunctionType:
    """The type of `bound` for elements of so many bits."""
    return ir.FunctionType(ir.IntType(bits), [POINTER, I64])


def network_symbol(bits: int) -> str:
    """`void network(ptr integers, i64 count)`: they begin where a vector may, and memory for `padded_count` of them."""
    return f"xloom.sort.network.u{bits}"


def sort_symbol(bits: int, apart: bool = False) -> str:
    """`i64 sort(ptr integers, i64 distance, i64 count, i1 false, i1 once)`.

    With halves `apart`, the low one of each integer lies `distance` bytes from its high one; else that means nothing.
    With `once` it only brings some that are less than all others to the front, and says how many: none of few.
    """
    return f"xloom.sort.u{bits}{'.apart' if apart else ''}"
