"""Operators of one operand: conversions, rounding, absolute values; and complex numbers with their parts."""

from __future__ import annotations

from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import Instruction
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_SIGNIFICAND_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_EXPONENT_BITS = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}
_IDEMPOTENT = ("abs", "ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign")


def _holds(wide: DType, narrow: DType) -> bool:
    """True when every value of `narrow` is a value of `wide`."""
    if narrow.kind is Kind.PRED:
        return wide.is_integer or wide.name in _SIGNIFICAND_BITS
    if narrow.is_integer:
        value_bits = narrow.bits - (narrow.kind is Kind.SIGNED)
        if wide.name in _SIGNIFICAND_BITS:
            # 2**value_bits must be finite too
            return value_bits <= min(_SIGNIFICAND_BITS[wide.name], (1 << (_EXPONENT_BITS[wide.name] - 1)) - 1)
        if not wide.is_integer or (narrow.kind is Kind.SIGNED and wide.kind is not Kind.SIGNED):
            return False
        return value_bits <= wide.bits - (wide.kind is Kind.SIGNED)
    if narrow.name not in _SIGNIFICAND_BITS or wide.name not in _SIGNIFICAND_BITS:
        return narrow is wide
    return (
        _SIGNIFICAND_BITS[narrow.name] <= _SIGNIFICAND_BITS[wide.name]
        and _EXPONENT_BITS[narrow.name] <= _EXPONENT_BITS[wide.name]
    )


# convert to the type that x has == x
@rule("convert", "bitcast-convert")
def _convert_to_itself(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0]


# convert(convert(x)) == x, where the type between holds every value of x's
@rule("convert")
def _convert_there_and_back(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "convert":
        return None
    x = inner.operands[0]
    return x if _holds(inner.shape.dtype, x.shape.dtype) else None


# convert(convert(x)) == convert(x), where the type between holds every value of x's; all through integers or floats
@rule("convert")
def _convert_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "convert":
        return None
    x = inner.operands[0]
    source, between = x.shape.dtype, inner.shape.dtype
    same_kind = source.is_integer == between.is_integer and source.is_float == between.is_float
    if not same_kind or source.kind is Kind.PRED or not _holds(between, source):
        return None
    return rw.make("convert", i.shape, [x])


# bitcast-convert(bitcast-convert(x)) == x
@rule("bitcast-convert")
def _bitcast_there_and_back(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return inner.operands[0] if inner.opcode == "bitcast-convert" else None


# floor(floor(x)) == floor(x), and so for abs, ceil, sign, round
@rule(*_IDEMPOTENT)
def _twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if i.operands[0].opcode == i.opcode else None


# |-x| == |x|; signed integers wrap: |-INT_MIN| == |INT_MIN|. Not unsigned: -1 is 255
@rule("abs")
def _abs_of_negative(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    if x.opcode != "negate" or i.shape.dtype.kind is Kind.UNSIGNED:
        return None
    return rw.make("abs", i.shape, [x.operands[0]])


# |x| == x; unsigned
@rule("abs")
def _abs_of_unsigned(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if i.shape.dtype.kind is Kind.UNSIGNED else None


# real(complex(x, y)) == x;  imag(complex(x, y)) == y
@rule("real", "imag")
def _part_of_complex(i: Instruction, rw: Rewriter) -> Instruction | None:
    z = i.operands[0]
    return z.operands[i.opcode == "imag"] if z.opcode == "complex" else None


# real(x) == x;  imag(x) == 0; x real
@rule("real", "imag")
def _part_of_real(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    if x.shape.dtype.is_complex:
        return None
    return x if i.opcode == "real" else rw.splat(i.shape, 0)


# complex(real(z), imag(z)) == z
@rule("complex")
def _complex_of_parts(i: Instruction, rw: Rewriter) -> Instruction | None:
    re, im = i.operands
    if re.opcode != "real" or im.opcode != "imag" or re.operands[0] is not im.operands[0]:
        return None
    return re.operands[0]


# reduce-precision(x) == x; to at least x's own exponent and mantissa bits, which bf16 and f16 may be computed beyond
@rule("reduce-precision")
def _full_precision(i: Instruction, rw: Rewriter) -> Instruction | None:
    name = i.shape.dtype.name
    if name not in _SIGNIFICAND_BITS or name in ("bf16", "f16"):
        return None
    keeps = i["exponent_bits"] >= _EXPONENT_BITS[name] and i["mantissa_bits"] >= _SIGNIFICAND_BITS[name] - 1
    return i.operands[0] if keeps else None
