"""Loads and stores of an array's elements: between the form that a dtype has in memory and the one in registers."""

from __future__ import annotations

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind
from xloom.llvm.scalar.conversion import narrow, narrow_exact, widen, wrapped
from xloom.llvm.types import FLOAT, I8, I64, Complex, Value, element_pointer, is_wide, memory_type


def load(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: ir.Value) -> Value:
    """Element `index` of an array, in registers."""
    address, kind = element_pointer(b, pointer, dtype, index), memory_type(dtype)
    if dtype.is_complex:
        second = b.gep(address, [I64(1)], inbounds=True, source_etype=kind)
        size = dtype.bytes // 2
        return Complex(b.load(address, typ=kind, align=size), b.load(second, typ=kind, align=size))
    value = b.load(address, typ=kind, align=dtype.bytes)
    if dtype.kind is Kind.PRED:
        return b.icmp_unsigned("!=", value, I8(0))
    if dtype.is_integer:
        return wrapped(b, value, dtype)  # what others write need not be extended
    return value if is_wide(dtype) else widen(b, value, dtype)


def store(
    b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: ir.Value, value: Value, *, exact: bool = False
) -> None:
    """Writes element `index` of an array: a value in registers, or a narrow float as it lies in memory.

    `exact` says that a narrow float in registers is a value of its type already.
    """
    address, kind = element_pointer(b, pointer, dtype, index), memory_type(dtype)
    if dtype.is_complex:
        b.store(value.real, address, align=dtype.bytes // 2)
        b.store(value.imag, b.gep(address, [I64(1)], inbounds=True, source_etype=kind), align=dtype.bytes // 2)
        return
    if dtype.kind is Kind.PRED:
        value = b.zext(value, I8)
    elif dtype.is_float and not is_wide(dtype) and value.type == FLOAT:
        value = (narrow_exact if exact else narrow)(b, value, dtype)
    b.store(value, address, align=dtype.bytes)
