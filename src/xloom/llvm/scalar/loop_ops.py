"""The loop IR's own scalar operators: casts of indices, parts of elements, and plain comparisons."""

from __future__ import annotations

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.scalar import conversion
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.rules import emits
from xloom.llvm.types import I64, Value


@emits("alias")
def alias(b: ir.IRBuilder, operator: Operator, x: Value) -> Value:
    """The operand's value: the node only gives it an identity of its own."""
    return x


@emits("index-cast")
def index_cast(b: ir.IRBuilder, operator: Operator, x: ir.Value) -> Value:
    """An index (s64 or s32) as a number of any type."""
    return conversion.converted(b, x, operator.operand_types[0], operator.dtype)


@emits("predicate")
def predicate(b: ir.IRBuilder, operator: Operator, x: ir.Value, y: ir.Value) -> ir.Value:
    """A comparison by LLVM's name of it; of floats an ordered one, but for `uno`."""
    name, kind = operator["predicate"], operator.operand_types[0].kind
    if kind is Kind.FLOAT:
        return b.fcmp_ordered(name, x, y)
    return (b.icmp_signed if kind is Kind.SIGNED else b.icmp_unsigned)(name, x, y)


@emits("rotate-left")
def rotate_left(b: ir.IRBuilder, operator: Operator, x: ir.Value, count: ir.Value) -> ir.Value:
    """x << count | x >> (width - count), as HLO shifts: 0 for a count beyond the width."""
    within = b.icmp_unsigned("<=", count, count.type(operator.dtype.bits))
    # not by a choice, for each value of which LLVM would write the loop again
    return intrinsic(b, "umin", intrinsic(b, "fshl", x, x, count), b.sext(within, x.type))


@emits("bitcast-element")
def bitcast_element(b: ir.IRBuilder, operator: Operator, x: Value) -> Value:
    """The bits of an element as another type of as many."""
    return conversion.from_bits(b, conversion.to_bits(b, x, operator.operand_types[0]), operator.dtype)


@emits("bitcast-part")
def bitcast_part(b: ir.IRBuilder, operator: Operator, x: Value, number: ir.Value) -> Value:
    """The bits of an element's part `number` (s64) as a narrower type; part 0 has the lowest."""
    width = bits_of(operator.dtype)
    bits = conversion.to_bits(b, x, operator.operand_types[0])
    shift = b.mul(number, I64(width))
    amount = b.trunc(shift, bits.type) if bits.type.width < 64 else shift
    kind = ir.IntType(max(8, width))
    low = b.lshr(bits, amount)
    return conversion.from_bits(b, b.trunc(low, kind) if kind.width < bits.type.width else low, operator.dtype)


@emits("bitcast-parts")
def bitcast_parts(b: ir.IRBuilder, operator: Operator, *parts: Value) -> Value:
    """The bits of several elements, the first the lowest, as one of a wider type."""
    source = operator.operand_types[0]
    kind, width = ir.IntType(max(8, bits_of(operator.dtype))), bits_of(source)
    mask = (1 << width) - 1
    out = kind(0)
    for k, part in enumerate(parts):
        bits = conversion.to_bits(b, part, source)
        wide = b.zext(bits, kind) if bits.type.width < kind.width else bits
        out = b.or_(out, b.shl(b.and_(wide, kind(mask)), kind(k * width)))
    return conversion.from_bits(b, out, operator.dtype)


def bits_of(dtype: DType) -> int:
    """The bits of an element that a bitcast sees."""
    return 8 if dtype.kind is Kind.PRED else dtype.bits
