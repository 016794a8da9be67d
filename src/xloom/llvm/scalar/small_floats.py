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
    info = ml_dtypes.finfo(dtype.numpy)
    exponent, bias = int(info.nexp), 1 - int(info.minexp)
    byte, single = raw.type, like(raw.type, FLOAT)
    top = b.shl(raw, uniform(byte, 8 - dtype.bits)) if dtype.bits < 8 else raw
    # f16 has room for an exponent whose largest code means what it means there; conversion of f16 knows its denormals
    is_half = exponent < 5 or dtype.name == "f8e5m2"
    width, mantissa, half_bias = (16, 10, 15) if is_half else (32, 23, 127)
    bits = like(byte, I16 if is_half else I32)
    shift = mantissa - (7 - exponent)
    sign = 1 << (width - 1)
    moved = b.and_(b.shl(b.sext(top, bits), uniform(bits, shift)), uniform(bits, sign | 0x7F << shift))
    quiet = 3 << (mantissa - 1) | (31 if is_half else 255) - 1 << mantissa
    if dtype.name.endswith("fnuz"):
        special = b.icmp_unsigned("==", top, uniform(byte, 0x80))
    elif dtype.bits == 8 and dtype.name.endswith("fn"):
        special = b.icmp_unsigned("==", b.and_(top, uniform(byte, 0x7F)), uniform(byte, 0x7F))
    elif dtype.bits == 8 and exponent < 5:  # the largest exponent is of infinities and NaN
        quiet = 31 << mantissa
        largest = (1 << exponent) - 1 << (7 - exponent)
        special = b.icmp_unsigned("==", b.and_(top, uniform(byte, largest)), uniform(byte, largest))
    else:
        special = None
    if special is not None:
        moved = b.or_(moved, b.select(special, uniform(bits, quiet), uniform(bits, 0)))
    value = b.bitcast(moved, like(byte, HALF) if is_half else single)
    value = b.fpext(value, single) if is_half else value
    return b.fmul(value, uniform(single, 2.0 ** (half_bias - bias))) if bias != half_bias else value


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
    return _narrow_number(b, value, bits, dtype)


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


def _narrow_number(b: ir.IRBuilder, value: ir.Value, bits: ir.Value, dtype: DType) -> ir.Value:
    info = ml_dtypes.finfo(dtype.numpy)
    mantissa, least = int(info.nmant), int(info.minexp)
    bias = 1 - least
    code_bits = dtype.bits - 1
    size = b.and_(bits, I32(0x7FFFFFFF))
    # adding and taking away 1.5 * 2**23 units in the last place rounds to such units
    exponent = b.lshr(size, I32(23))
    floor = I32(least + 127)
    exponent = b.select(b.icmp_unsigned("<", exponent, floor), floor, exponent)
    magic = b.or_(b.shl(b.add(exponent, I32(23 - mantissa)), I32(23)), I32(0x400000))
    magic_float = b.bitcast(magic, FLOAT)
    rounded = b.fsub(b.fadd(b.bitcast(size, FLOAT), magic_float), magic_float)
    normal = b.sub(b.lshr(b.bitcast(rounded, I32), I32(23 - mantissa)), I32((127 - bias) << mantissa))
    unit = ir.Constant(FLOAT, 2.0 ** (mantissa - least))
    denormal = b.fptoui(b.fmul(rounded, unit), I32)
    code = b.select(b.fcmp_ordered("<", rounded, ir.Constant(FLOAT, 2.0**least)), denormal, normal)
    greatest = float(info.max)
    over = b.fcmp_unordered("ugt", rounded, ir.Constant(FLOAT, greatest))
    nan = b.icmp_unsigned(">", size, I32(0x7F800000))
    if dtype.bits < 8:  # no infinity, no NaN: saturates; NaN is -0
        code = b.select(over, I32(int(np.float32(greatest).astype(dtype.numpy).view(np.uint8))), code)
        code = b.select(nan, I32(0), code)
        sign = b.select(nan, I32(1), b.lshr(bits, I32(31)))
        return b.trunc(b.or_(code, b.shl(sign, I32(code_bits))), I8)
    sign = b.shl(b.lshr(bits, I32(31)), I32(7))

    def code_of(number: float) -> int:
        return int(np.asarray(number, np.float32).astype(dtype.numpy).view(np.uint8))

    infinite, not_a_number = code_of(np.inf), code_of(np.nan)
    if dtype.name.endswith("fnuz"):
        signed = b.select(b.icmp_unsigned("==", code, I32(0)), I32(0), b.or_(code, sign))  # there is no -0
        return b.trunc(b.select(b.or_(over, nan), I32(0x80), signed), I8)
    code = b.select(over, I32(infinite & 0x7F), code)
    code = b.select(nan, I32(not_a_number & 0x7F), code)
    return b.trunc(b.or_(code, sign), I8)
