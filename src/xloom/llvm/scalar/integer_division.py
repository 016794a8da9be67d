"""Quotients and remainders of integers: x/0 is all ones, x rem 0 is x, INT_MIN/-1 is INT_MIN, INT_MIN rem -1 is 0."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind
from xloom.llvm.types import DOUBLE, FLOAT, I32, I64

Rule = Callable[[ir.IRBuilder, DType, ir.Value, ir.Value, bool], ir.Value]


def quotient(b: ir.IRBuilder, dtype: DType, x: ir.Value, y: ir.Value, many: bool) -> ir.Value:
    """x / y, truncated; of `many` elements, or of one."""
    zero = b.icmp_unsigned("==", y, y.type(0))
    if _fits_float(dtype, y, many):
        return b.select(zero, x.type(-1), _through_float(b, dtype, x, y, zero))
    safe, minus = _safe_divisor(b, dtype, y, zero)
    if minus is None:
        return b.select(zero, x.type(-1), b.udiv(x, safe))
    return b.select(zero, x.type(-1), b.select(minus, b.neg(x), b.sdiv(x, safe)))


def remainder(b: ir.IRBuilder, dtype: DType, x: ir.Value, y: ir.Value, many: bool) -> ir.Value:
    """x - y * (x / y), which has the sign of x; of `many` elements, or of one."""
    zero = b.icmp_unsigned("==", y, y.type(0))
    if _fits_float(dtype, y, many):
        return b.sub(x, b.mul(_through_float(b, dtype, x, y, zero), y))
    safe, minus = _safe_divisor(b, dtype, y, zero)
    if minus is None:
        return b.select(zero, x, b.urem(x, safe))
    return b.select(zero, x, b.select(minus, x.type(0), b.srem(x, safe)))


def _fits_float(dtype: DType, y: ir.Value, many: bool) -> bool:
    """True where floats are faster: only they are divided in vectors, but one integer is divided sooner alone.

    By a constant, integers are multiplied.
    """
    return many and dtype.bits <= 32 and not isinstance(y, ir.Constant)


def _through_float(b: ir.IRBuilder, dtype: DType, x: ir.Value, y: ir.Value, zero: ir.Value) -> ir.Value:
    """The quotient; of a division by 0, x. Rounded to more bits than x has, it stays on its side of integers."""
    signed = dtype.kind is Kind.SIGNED
    real, wide = (FLOAT, I32) if dtype.bits <= 16 else (DOUBLE, I64)
    to_float = b.sitofp if signed else b.uitofp
    ratio = b.fdiv(to_float(x, real), to_float(b.select(zero, y.type(1), y), real))
    return b.trunc(b.fptosi(ratio, wide), x.type)


def _safe_divisor(b: ir.IRBuilder, dtype: DType, y: ir.Value, zero: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """A divisor that traps for no x; and whether y is -1, if it can be."""
    if dtype.kind is not Kind.SIGNED:
        return b.select(zero, y.type(1), y), None
    minus = b.icmp_signed("==", y, y.type(-1))
    return b.select(b.or_(zero, minus), y.type(1), y), minus
