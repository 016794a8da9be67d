"""Element types in memory and in registers.

| dtype                    | memory         | registers                                      |
| pred                     | i8, 0 or 1     | i1                                             |
| s8 ... u64               | iN             | iN                                             |
| s1 ... u4                | i8, extended   | i8, extended                                   |
| f32, f64                 | float, double  | the same                                       |
| f16                      | half           | float that has a half's value                  |
| bf16, f8..., f6..., f4...| i16, i8        | float that has a value of the type             |
| c64, c128                | two of the real| `Complex`                                      |
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind
from xloom.llvm.symbolic_dimension import SymbolicDimension

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType()
VOID = ir.VoidType()


class Complex(NamedTuple):
    """A complex number in registers."""

    real: ir.Value
    imag: ir.Value


Value = Any  # ir.Value | Complex


def i64(number: int | SymbolicDimension | ir.Value) -> ir.Value:
    """An index, or how far apart elements lie."""
    if isinstance(number, ir.Value):
        return number
    return I64(number) if isinstance(number, int) else number.loaded()


def register_type(dtype: DType) -> ir.Type:
    """The LLVM type of a value in registers; of a complex number, that of its parts."""
    if dtype.kind is Kind.PRED:
        return I1
    if dtype.is_integer:
        return ir.IntType(max(8, dtype.bits))
    return DOUBLE if dtype.real.bits == 64 else FLOAT


def memory_type(dtype: DType) -> ir.Type:
    """The LLVM type of an element in memory; of a complex number, that of its parts."""
    if dtype.kind is Kind.PRED:
        return I8
    if dtype.is_integer or dtype.real.bits >= 32:
        return register_type(dtype)
    return HALF if dtype.name == "f16" else ir.IntType(16 if dtype.bits == 16 else 8)


def is_wide(dtype: DType) -> bool:
    """True when a float is computed in its own type: f32 and f64 (and the parts of complex numbers)."""
    return dtype.real.bits >= 32


def element_pointer(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: ir.Value) -> ir.Value:
    """The address of element `index` (i64) of an array of `dtype`."""
    kind = memory_type(dtype)
    if dtype.is_complex:
        kind = ir.ArrayType(kind, 2)
    return b.gep(pointer, [index], inbounds=True, source_etype=kind)


def constant(value: Any, dtype: DType) -> Value:
    """A Python or NumPy scalar in registers."""
    kind = register_type(dtype)
    if dtype.is_complex:
        value = complex(value)
        return Complex(_float(kind, value.real), _float(kind, value.imag))
    if dtype.kind is Kind.PRED:
        return I1(int(bool(value)))
    return kind(int(value)) if dtype.is_integer else _float(kind, float(value))


def _float(kind: ir.Type, value: float) -> ir.Value:
    return ir.Constant(kind, value)
