"""Floats of 8 bits and fewer: from the bits that they have in memory to f32, and back."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
from llvmlite import ir

from xloom.hlo.dtype import DType
from xloom.llvm.types import FLOAT, HALF, I8, I16, I32
from xloom.llvm.vectors import like, uniform


@cache
def holds(target: DType, source: DType) -> bool:
    """True when each value of a float of at most 8 bits is one of `target`, infinities and NaN, too."""
    # f32 has all of them: between some types ml_dtypes has no conversions
    values = np.arange(1 << source.bits, dtype=np.uint8).view(source.numpy).astype(np.float32)
    # ml_dtypes warns of numbers that become infinite, which is what is asked
    with np.errstate(all="ignore"):
        return np.array_equal(values.astype(target.numpy).astype(np.float32), values, equal_nan=True)


def widen_small(b: ir.IRBuilder, raw: ir.Value, dtype: DType) -> ir.Value:
    """Bits (i8, or a vector of them; above the type's own, they may be any) as f32 of the same values.

    Sign, exponent and mantissa are moved to where a wider float has them; a factor makes good for the other bias. All
    steps are ones that vectors have.
    """
    if dtype.name == "f8e8m0fnu":
        return _widen_exponent(b, raw)
    if not _fits_half(dtype):
        return _widen_long_exponent(b, raw, dtype)
    info = ml_dtypes.finfo(dtype.numpy)
    exponent, bias = int(info.nexp), 1 - int(info.minexp)
    byte, single = raw.type, like(raw.type, FLOAT)
    top = b.shl(raw, uniform(byte, 8 - dtype.bits)) if dtype.bits < 8 else raw
    bits = like(byte, I16)
    shift = 10 - (7 - exponent)
    moved = b.and_(b.shl(b.sext(top, bits), uniform(bits, shift)), uniform(bits, 0x8000 | 0x7F << shift))
    quiet = 0x7E00
    if dtype.name.endswith("fnuz"):
        special = b.icmp_unsigned("==", top, uniform(byte, 0x80))
    elif dtype.bits == 8 and dtype.name.endswith("fn"):
        special = b.icmp_unsigned("==", b.and_(top, uniform(byte, 0x7F)), uniform(byte, 0x7F))
    elif dtype.bits == 8 and exponent < 5:  # the largest exponent is of infinities and NaN
        quiet = 0x7C00
        largest = (1 << exponent) - 1 << (7 - exponent)
        special = b.icmp_unsigned("==", b.and_(top, uniform(byte, largest)), uniform(byte, largest))
    else:
        special = None
    if special is not None:
        moved = b.or_(moved, b.select(special, uniform(bits, quiet), uniform(bits, 0)))
    value = b.fpext(b.bitcast(moved, like(byte, HALF)), single)
    return b.fmul(value, uniform(single, 2.0 ** (_HALF_BIAS - bias))) if bias != _HALF_BIAS else value


_HALF_BIAS = 15
"""Of exponents of f16."""


def _fits_half(dtype: DType) -> bool:
    """True where f16 has room for an exponent whose largest code means what it means there, and so for denormals."""
    return int(ml_dtypes.finfo(dtype.numpy).nexp) < 5 or dtype.name == "f8e5m2"


def _widen_long_exponent(b: ir.IRBuilder, raw: ir.Value, dtype: DType) -> ir.Value:
    """Of a type whose exponent f16 has no room for, and without infinities and -0; NaN is 0x80, so it is negative."""
    info = ml_dtypes.finfo(dtype.numpy)
    mantissa, least = int(info.nmant), int(info.minexp)
    byte, wide, single = raw.type, like(raw.type, I32), like(raw.type, FLOAT)
    size = b.shl(b.zext(b.and_(raw, uniform(byte, 0x7F)), wide), uniform(wide, 23 - mantissa))
    normal = b.add(size, uniform(wide, 126 + least << 23))
    # denormals of f32 may be taken for 0: the mantissa below the least power of two, which is taken away again
    above = b.fsub(b.bitcast(b.add(normal, uniform(wide, 1 << 23)), single), uniform(single, 2.0**least))
    denormal = b.icmp_unsigned("<", size, uniform(wide, 1 << 23))
    number = b.bitcast(b.select(denormal, b.bitcast(above, wide), normal), wide)
    sign = b.shl(b.zext(b.and_(raw, uniform(byte, 0x80)), wide), uniform(wide, 24))
    nan = b.icmp_unsigned("==", raw, uniform(byte, 0x80))
    return b.bitcast(b.select(nan, uniform(wide, 0xFFC00000), b.or_(number, sign)), single)


def _widen_exponent(b: ir.IRBuilder, raw: ir.Value) -> ir.Value:
    """A power of two: code 0 is one below the normal numbers of f32, 255 is NaN; both have a bit of mantissa."""
    byte, wide = raw.type, like(raw.type, I32)
    bits = b.shl(b.zext(raw, wide), uniform(wide, 23))
    is_end = b.icmp_unsigned("<=", b.add(raw, uniform(byte, 1)), uniform(byte, 1))
    end = b.select(is_end, uniform(wide, 1 << 22), uniform(wide, 0))
    return b.bitcast(b.or_(bits, end), like(byte, FLOAT))


def narrow_small(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """A float rounded to at most 8 bits, as it lies in memory. Ties go to even; NaN stays NaN where there is one."""
    bits = b.bitcast(value, I32)
    if dtype.name == "f8e8m0fnu":
        return _narrow_exponent(b, value, bits)
    return _narrow_number(b, bits, dtype)


def narrow_small_exact(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """A float that has a value of at most 8 bits, as it lies in memory: the way back from what `widen_small` makes."""
    if dtype.name == "f8e8m0fnu" or not _fits_half(dtype):
        return narrow_small(b, value, dtype)
    info = ml_dtypes.finfo(dtype.numpy)
    bias, mantissa = 1 - int(info.minexp), int(info.nmant)
    if bias != _HALF_BIAS:
        value = b.fmul(value, ir.Constant(FLOAT, 2.0 ** (bias - _HALF_BIAS)))
    bits = b.bitcast(b.fptrunc(value, HALF), I16)
    code = b.lshr(b.and_(bits, I16(0x7FFF)), I16(10 - mantissa))
    sign = b.and_(b.lshr(bits, I16(16 - dtype.bits)), I16(1 << (dtype.bits - 1)))
    if dtype.name.endswith("fnuz"):
        number = b.select(b.icmp_unsigned("==", code, I16(0)), I16(0), b.or_(code, sign))
        return b.trunc(b.select(b.icmp_unsigned(">", code, I16(0x7F)), I16(0x80), number), I8)
    if dtype.bits == 8 and dtype.name.endswith("fn"):
        code = b.select(b.icmp_unsigned(">", code, I16(0x7F)), I16(0x7F), code)
    elif dtype.bits == 8:  # of infinities and NaN, f16 has larger exponents
        code = b.and_(code, I16(0x7F))
    return b.trunc(b.or_(code, sign), I8)


def narrow_through_half(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A float rounded to f16 and then to f8e5m2, as it lies in memory.

    Which is as one rounding does it of all numbers of f16 or bf16, and of the sum, difference, product or quotient of
    two of f8e5m2: where f16 rounds them, they are nowhere near the middle of two of f8e5m2.
    """
    bits = b.bitcast(b.fptrunc(value, HALF), I16)
    odd = b.and_(b.lshr(bits, I16(8)), I16(1))
    rounded = b.add(b.add(bits, I16(0x7F)), odd)
    is_nan = b.icmp_unsigned(">", b.and_(bits, I16(0x7FFF)), I16(0x7C00))
    return b.trunc(b.lshr(b.select(is_nan, b.or_(bits, I16(0x200)), rounded), I16(8)), I8)


def _narrow_exponent(b: ir.IRBuilder, value: ir.Value, bits: ir.Value) -> ir.Value:
    # only powers of two: half of the way up rounds to the even mantissa 0 of the next power, as it does in ml_dtypes
    exponent, mantissa = b.lshr(bits, I32(23)), b.and_(bits, I32(0x7FFFFF))
    normal = b.add(exponent, b.zext(b.icmp_unsigned(">=", mantissa, I32(0x400000)), I32))
    # denormals lie below 2**-126: 2**-127 is code 0, what is above it rounds up there, as it does in ml_dtypes
    small = b.zext(b.icmp_unsigned(">", mantissa, I32(0x400000)), I32)
    code = b.select(b.icmp_unsigned("==", exponent, I32(0)), small, normal)
    bad = b.icmp_unsigned(">", bits, I32(0x7F7FFFFF))  # negative, infinite or NaN
    zero = b.fcmp_ordered("==", value, FLOAT(0.0))
    return b.trunc(b.select(b.or_(bad, zero), I32(0xFF), code), I8)


def _narrow_number(b: ir.IRBuilder, bits: ir.Value, dtype: DType) -> ir.Value:
    info = ml_dtypes.finfo(dtype.numpy)
    mantissa, least = int(info.nmant), int(info.minexp)
    size, dropped = b.and_(bits, I32(0x7FFFFFFF)), I32(23 - mantissa)
    # half a unit is added where what is kept is odd, and all but nothing of it where it is even
    odd = b.and_(b.lshr(size, dropped), I32(1))
    other_bias = (least + 126 << 23) - (1 << (22 - mantissa)) + 1
    normal = b.lshr(b.add(b.sub(size, I32(other_bias)), odd), dropped)
    # the last place of the sum is that of denormals
    aligned = 2.0 ** (least - mantissa + 23)
    total = b.fadd(b.bitcast(size, FLOAT), ir.Constant(FLOAT, aligned))
    denormal = b.sub(b.bitcast(total, I32), I32(int(np.float32(aligned).view(np.int32))))
    code = b.select(b.icmp_unsigned("<", size, I32(least + 127 << 23)), denormal, normal)
    nan = b.icmp_unsigned(">", size, I32(0x7F800000))
    greatest = _code(float(info.max), dtype)
    sign = b.and_(b.lshr(bits, I32(32 - dtype.bits)), I32(1 << (dtype.bits - 1)))
    over = b.icmp_unsigned(">", code, I32(greatest))
    if dtype.name.endswith("fnuz"):
        number = b.select(b.icmp_unsigned("==", code, I32(0)), I32(0), b.or_(code, sign))  # there is no -0
        return b.trunc(b.select(b.or_(over, nan), I32(0x80), number), I8)
    if dtype.bits < 8:  # no infinity, no NaN: saturates; NaN is -0
        code = b.select(nan, I32(0), b.select(over, I32(greatest), code))
        sign = b.select(nan, I32(1 << (dtype.bits - 1)), sign)
        return b.trunc(b.or_(code, sign), I8)
    infinite, not_a_number = _code(np.inf, dtype) & 0x7F, _code(np.nan, dtype) & 0x7F
    code = b.select(over, I32(infinite), code)
    if infinite != not_a_number:
        code = b.select(nan, I32(not_a_number), code)
    return b.trunc(b.or_(code, sign), I8)


def _code(number: float, dtype: DType) -> int:
    return int(np.asarray(number, np.float32).astype(dtype.numpy).view(np.uint8))
