"""The type that a dot's sums are of."""

from __future__ import annotations

from xloom.hlo.dtype import DType, c64, c128, f64
from xloom.hlo.instruction import Instruction


def product_type(dot: Instruction) -> DType:
    """That of the result, unless floats or f64 would be rounded to it before they are added up."""
    result = dot.shape.dtype
    floats = [o.shape.dtype for o in dot.operands if o.shape.dtype.is_float or o.shape.dtype.is_complex]
    if floats and not (result.is_float or result.is_complex):
        return max(floats, key=lambda dtype: dtype.bits)
    if f64 in floats and result.is_float:
        return f64
    return c128 if c128 in floats and result is c64 else result
