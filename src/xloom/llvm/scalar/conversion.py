"""Changes of element type: narrow floats in and out of registers, convert, bitcast-convert, reduce-precision."""

from __future__ import annotations

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind, bf16, f16, f32
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.rules import emits
from xloom.llvm.scalar.small_floats import (
    holds,
    narrow_small,
    narrow_small_exact,
    narrow_through_half,
    widen_small,
)
from xloom.llvm.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    Complex,
    Value,
    constant,
    is_wide,
    memory_type,
    register_type,
)
from xloom.llvm.vectors import like, uniform


def widen(b: ir.IRBuilder, raw: ir.Value, dtype: DType) -> ir.Value:
    """A narrow float as it lies in memory, or a vector of them, as f32 of the same value."""
    kind = like(raw.type, FLOAT)
    if dtype.name == "f16":
        return b.fpext(raw, kind)
    if dtype.name == "bf16":
        wide = like(raw.type, I32)
        return b.bitcast(b.shl(b.zext(raw, wide), uniform(wide, 16)), kind)
    return widen_small(b, raw, dtype)


def narrow(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """A float rounded to a narrow type, as it lies in memory. Ties go to even; NaN stays NaN."""
    if dtype.name == "f16":
        return b.fptrunc(value, HALF)
    if dtype.name == "bf16":
        return b.trunc(b.lshr(_half_rounded(b, value), I32(16)), I16)
    return narrow_small(b, value, dtype)


def _half_rounded(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The bits of a float rounded to their upper half, in which the lower half is 0; of a NaN, any NaN."""
    bits = b.bitcast(value, I32)
    quiet = b.or_(bits, I32(0x400000))  # what NaN says may all be in the lower half
    upper = b.select(b.fcmp_unordered("uno", value, value), quiet, b.bitcast(_half_rounded_number(b, value), I32))
    return b.and_(upper, I32(0xFFFF0000))


def _half_rounded_number(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A float with its bits rounded to their upper half; no NaN whose lower half says something."""
    bits = b.bitcast(value, I32)
    # half of a unit is between two, of which the even one is meant
    odd = b.and_(b.lshr(bits, I32(16)), I32(1))
    return b.bitcast(b.and_(b.add(b.add(bits, I32(0x7FFF)), odd), I32(0xFFFF0000)), FLOAT)


def rounded(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """A float computed for a narrow type, rounded to a value of the type; f32 and f64 as they are."""
    if is_wide(dtype):
        return value
    if dtype.name == "bf16":
        return b.bitcast(_half_rounded(b, value), FLOAT)
    return widen(b, narrow(b, value, dtype), dtype)


def rounded_result(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """`rounded`, of what an operator made of operands of the type: what a NaN says is what they said, or nothing."""
    return _half_rounded_number(b, value) if dtype.name == "bf16" else rounded(b, value, dtype)


def narrow_result(b: ir.IRBuilder, value: ir.Value, operator: Operator) -> ir.Value:
    """`narrow`, of what an operator made of its operands, in f32; or of the operand that it converts."""
    dtype = operator.dtype
    has_few_digits = operator.opcode in _OF_FEW_DIGITS or operator.operand_types[0] in (f16, bf16)
    return narrow_through_half(b, value) if dtype.name == "f8e5m2" and has_few_digits else narrow(b, value, dtype)


_OF_FEW_DIGITS = frozenset(["add", "divide", "multiply", "subtract"])


def narrow_exact(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """A float that has a value of a narrow type, as it lies in memory."""
    if dtype.name == "bf16":
        return b.trunc(b.lshr(b.bitcast(value, I32), I32(16)), I16)
    return narrow_small_exact(b, value, dtype) if dtype.bits <= 8 else narrow(b, value, dtype)


def wrapped(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """An integer, or a vector of them, reduced to the bits of a sub-byte type; others as they are."""
    if dtype.bits >= 8 or not dtype.is_integer:
        return value
    value = b.and_(value, uniform(value.type, (1 << dtype.bits) - 1))
    if dtype.kind is not Kind.SIGNED:
        return value
    sign = uniform(value.type, 1 << (dtype.bits - 1))  # vectors of bytes have no shifts
    return b.sub(b.xor(value, sign), sign)


def converted(b: ir.IRBuilder, value: Value, source: DType, target: DType) -> Value:
    """`value` in another element type: float to integer truncates and saturates, NaN gives 0; integers wrap."""
    if source is target:
        return value
    if target.is_complex:
        parts = value if source.is_complex else Complex(value, None)
        real = converted(b, parts.real, source.real, target.real)
        imag = converted(b, parts.imag, source.real, target.real) if source.is_complex else constant(0, target.real)
        return Complex(real, imag)
    if source.is_complex:
        return converted(b, value.real, source.real, target)
    if target.kind is Kind.PRED:
        if source.is_float:
            return b.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
        return b.icmp_unsigned("!=", value, value.type(0))
    if source.is_float:
        return _saturated(b, value, target) if target.is_integer else _float_to_float(b, value, source, target)
    if target.is_integer:
        return wrapped(b, _resized(b, value, source, register_type(target)), target)
    return _integer_to_float(b, value, source, target)


def _resized(b: ir.IRBuilder, value: ir.Value, source: DType, kind: ir.IntType) -> ir.Value:
    if value.type.width > kind.width:
        return b.trunc(value, kind)
    if value.type.width == kind.width:
        return value
    return b.sext(value, kind) if source.kind is Kind.SIGNED else b.zext(value, kind)


def _saturated(b: ir.IRBuilder, value: ir.Value, target: DType) -> ir.Value:
    """Truncated and within the limits; in steps that vectors have, which LLVM's own operator has not."""
    signed, kind = target.kind is Kind.SIGNED, register_type(target)
    real = value.type
    low = -(1 << (target.bits - 1)) if signed else 0
    top = 1 << (target.bits - (1 if signed else 0))  # the first number that is too large
    precision = 53 if real == DOUBLE else 24
    whole = target.bits <= precision
    greatest = top - 1 if whole else top - (top >> precision)
    number = b.select(b.fcmp_unordered("uno", value, value), ir.Constant(real, 0.0), value)
    inside = b.select(b.fcmp_ordered("<", number, ir.Constant(real, low)), ir.Constant(real, low), number)
    limit = ir.Constant(real, greatest)
    inside = b.select(b.fcmp_ordered(">", inside, limit), limit, inside)
    if target.bits < 32:
        return b.trunc(b.fptosi(inside, I32), kind)
    integer = b.fptosi(inside, kind) if signed else b.fptoui(inside, kind)
    if whole:
        return integer
    return b.select(b.fcmp_ordered(">", number, limit), kind(top - 1), integer)


def _float_to_float(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType) -> ir.Value:
    if target.name == "f64":
        return b.fpext(value, DOUBLE)
    if source.name == "f64":
        if target.name == "bf16":
            return _double_to_bf16(b, value)
        if target.name in _GREAT:
            value = to_odd(b, value)
        else:
            number = value if is_wide(target) else b.bitcast(_sticky(b, b.bitcast(value, I64), 29), DOUBLE)
            value = b.fptrunc(number, FLOAT)
    return value if source.bits <= 8 and holds(target, source) else rounded(b, value, target)


def _double_to_bf16(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A float that is a double rounded to bf16."""
    exponent = _exponent(b, value)
    for order, limit in (("<", 1023 - 126), (">", 1023 + 128)):  # denormals; what becomes infinite
        bound = I64(limit << 52)
        exponent = b.select(b.icmp_unsigned(order, exponent, bound), bound, exponent)
    number = _to_eight_bits(b, value, exponent)
    return b.fptrunc(intrinsic(b, "copysign", number, value), FLOAT)


def _exponent(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return b.and_(b.bitcast(value, I64), I64(0x7FF << 52))


def _to_eight_bits(b: ir.IRBuilder, value: ir.Value, exponent: ir.Value) -> ir.Value:
    """A double rounded to as many bits as bf16 has; a zero loses its sign."""
    # adding and taking away 1.5 * 2**52 units in the last place rounds to such units
    magic = b.bitcast(b.add(exponent, I64((45 << 52) + (1 << 51))), DOUBLE)
    return b.fsub(b.fadd(value, magic), magic)


def to_odd(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A double as a float rounded to odd, so that rounding the float further is the only rounding there is."""
    near = b.fptrunc(value, FLOAT)
    back = b.fpext(near, DOUBLE)
    bits = b.bitcast(near, I32)
    finite = b.fcmp_ordered("<", intrinsic(b, "fabs", back), ir.Constant(DOUBLE, float("inf")))
    inexact = b.and_(b.fcmp_ordered("!=", back, value), finite)
    above = b.fcmp_ordered(">", intrinsic(b, "fabs", back), intrinsic(b, "fabs", value))
    toward_zero = b.sub(bits, b.zext(above, I32))
    return b.bitcast(b.select(inexact, b.or_(toward_zero, I32(1)), bits), FLOAT)


def _integer_to_float(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType) -> ir.Value:
    signed = source.kind is Kind.SIGNED
    to_float = b.sitofp if signed else b.uitofp
    if is_wide(target):
        return to_float(value, register_type(target))
    if source.bits <= 8 and target.name in _BYTES:
        return to_float(value, FLOAT)
    if source.bits <= 16 or target.name not in _GREAT:  # exact in a float, or beyond the type
        return rounded(b, to_float(value, FLOAT), target)
    if source.bits <= 32:
        return rounded_result(b, to_float(_with_sticky_bit(b, value, 8, signed), FLOAT), target)
    double = to_float(_with_sticky_bit(b, value, 11, signed), DOUBLE)
    if target.name == "bf16":
        return b.fptrunc(_to_eight_bits(b, double, _exponent(b, double)), FLOAT)
    return rounded(b, to_odd(b, double), target)


_GREAT = frozenset({"bf16", "f8e8m0fnu"})
"""Narrow floats that can be beyond 2**24."""


_BYTES = frozenset({"bf16", "f16"})
"""Narrow floats that have all integers of eight bits."""


def _with_sticky_bit(b: ir.IRBuilder, value: ir.Value, low: int, signed: bool) -> ir.Value:
    """A large integer without its lowest bits, the next one set if there were any; others as they are."""
    kind, few = value.type, low + 10  # bits of which that one is below all that matter
    limit = kind(1 << (few + 1 if signed else few))
    small = b.icmp_unsigned("<", b.add(value, kind(1 << few)) if signed else value, limit)
    return b.select(small, value, _sticky(b, value, low))


def _sticky(b: ir.IRBuilder, value: ir.Value, low: int) -> ir.Value:
    """An integer with its lowest bits cleared, and the next one set if there were any."""
    ones = value.type((1 << low) - 1)
    return b.and_(b.or_(value, b.add(b.and_(value, ones), ones)), b.not_(ones))


@emits("convert")
def convert(b: ir.IRBuilder, operator: Operator, x: Value) -> Value:
    """The operand in the operator's result type, as `converted` makes it."""
    return converted(b, x, operator.operand_types[0], operator.dtype)


def to_bits(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """The bits of a value that is not complex, as an integer of its memory size."""
    if dtype.kind is Kind.PRED:
        return b.zext(value, I8)
    if dtype.is_integer:
        return value
    if is_wide(dtype):
        return b.bitcast(value, ir.IntType(dtype.bits))
    raw = narrow_exact(b, value, dtype)
    return b.bitcast(raw, I16) if dtype.name == "f16" else raw


def from_bits(b: ir.IRBuilder, bits: ir.Value, dtype: DType) -> ir.Value:
    """The inverse of `to_bits`; of a sub-byte type, only its own bits are looked at."""
    if dtype.kind is Kind.PRED:
        return b.trunc(bits, I1)
    if dtype.is_integer:
        return wrapped(b, bits, dtype)
    if is_wide(dtype):
        return b.bitcast(bits, register_type(dtype))
    return widen(b, b.bitcast(bits, memory_type(dtype)), dtype)


@emits("reduce-precision")
def reduce_precision(b: ir.IRBuilder, operator: Operator, x: Value) -> Value:
    """Rounds the mantissa to even, flushes small exponents to 0 and large ones to infinity; NaN stays NaN."""
    dtype = operator.dtype
    mantissa = (dtype if dtype.bits >= 16 else f32).mantissa_bits
    bits = to_bits(b, x, dtype) if dtype.name in ("f64", "f16", "bf16") else b.bitcast(x, I32)
    kind = bits.type
    width = kind.width
    exponent_width = width - 1 - mantissa
    keep_mantissa, keep_exponent = operator["mantissa_bits"], operator["exponent_bits"]
    if keep_mantissa >= mantissa and keep_exponent >= exponent_width:
        return x
    sign, out = b.and_(bits, kind(1 << (width - 1))), b.and_(bits, kind((1 << (width - 1)) - 1))
    magnitude = out
    if keep_mantissa < mantissa:
        drop = mantissa - keep_mantissa
        last = b.and_(b.lshr(out, kind(drop)), kind(1))
        out = b.add(out, b.add(last, kind((1 << (drop - 1)) - 1)))
        out = b.and_(out, kind(((1 << (width - 1)) - 1) & ~((1 << drop) - 1)))
    infinity = kind(((1 << exponent_width) - 1) << mantissa)
    if keep_exponent < exponent_width:
        bias, reduced = (1 << (exponent_width - 1)) - 1, (1 << (keep_exponent - 1)) - 1
        exponent = b.and_(out, infinity)
        large = b.icmp_unsigned(">", exponent, kind((bias + reduced) << mantissa))
        small = b.icmp_unsigned("<=", exponent, kind(max(bias - reduced, 0) << mantissa))
        out = b.select(small, kind(0), b.select(large, infinity, out))
    nan = b.icmp_unsigned(">", magnitude, infinity)
    out = b.select(nan, infinity if keep_mantissa == 0 else magnitude, out)
    out = b.or_(out, sign)
    if dtype.name in ("f64", "f16", "bf16"):
        return from_bits(b, out, dtype)
    return rounded(b, b.bitcast(out, FLOAT), dtype)


@emits("stochastic-convert")
def stochastic_convert(b: ir.IRBuilder, operator: Operator, x: Value, random: Value) -> Value:
    """To an integer: |x| is rounded up when the random bits are below its fraction (as a share of 2**bits)."""
    source, bits = operator.operand_types[0], operator.operand_types[1]
    wide = x if x.type == DOUBLE else b.fpext(x, DOUBLE)
    size = intrinsic(b, "fabs", wide)
    whole = intrinsic(b, "floor", size)
    share = intrinsic(b, "floor", b.fmul(b.fsub(size, whole), ir.Constant(DOUBLE, 2.0**bits.bits)))
    up = b.fcmp_ordered("<", b.uitofp(random, DOUBLE), share)
    result = intrinsic(b, "copysign", b.fadd(whole, b.uitofp(up, DOUBLE)), wide)
    from xloom.hlo.dtype import f64

    assert source.is_float
    return converted(b, result, f64, operator.dtype)
