"""Elements as the bits that lie in memory, for code that mostly moves them."""

from __future__ import annotations

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind
from xloom.llvm.scalar.conversion import widen, wrapped
from xloom.llvm.types import Complex, Value, is_wide, memory_type


def bits_type(dtype: DType) -> ir.IntType:
    """An integer of an element's size in memory."""
    return ir.IntType(8 * dtype.bytes)


def load_bits(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: ir.Value) -> ir.Value:
    """The bits of element `index`."""
    kind = bits_type(dtype)
    return b.load(b.gep(pointer, [index], inbounds=True, source_etype=kind), typ=kind, align=_align(dtype))


def store_bits(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: ir.Value, value: ir.Value) -> None:
    """Writes the bits of element `index`."""
    b.store(value, b.gep(pointer, [index], inbounds=True, source_etype=bits_type(dtype)), align=_align(dtype))


def move(
    b: ir.IRBuilder, source: ir.Value, source_index: ir.Value, target: ir.Value, target_index: ir.Value, dtype: DType
) -> None:
    """Copies one element between arrays of a type by its bits, which a conversion could change."""
    store_bits(b, target, dtype, target_index, load_bits(b, source, dtype, source_index))


def _align(dtype: DType) -> int:
    return dtype.real.bytes


def value_of_bits(b: ir.IRBuilder, bits: ir.Value, dtype: DType) -> Value:
    """The value in registers that the bits in memory stand for."""
    if dtype.is_complex:
        half = bits_type(dtype.real)
        high = b.trunc(b.lshr(bits, bits.type(half.width)), half)
        return Complex(value_of_bits(b, b.trunc(bits, half), dtype.real), value_of_bits(b, high, dtype.real))
    if dtype.kind is Kind.PRED:
        return b.icmp_unsigned("!=", bits, bits.type(0))
    if dtype.is_integer:
        return wrapped(b, bits, dtype)  # what others write need not be extended
    if dtype.bits >= 16 and dtype.name != "bf16":
        bits = b.bitcast(bits, memory_type(dtype))
    return bits if is_wide(dtype) else widen(b, bits, dtype)
