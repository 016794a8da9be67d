"""Elements as the bits that lie in memory, for code that only moves them."""

from __future__ import annotations

from llvmlite import ir

from xloom.hlo.dtype import DType


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
    """Copies an element."""
    store_bits(b, target, dtype, target_index, load_bits(b, source, dtype, source_index))


def _align(dtype: DType) -> int:
    return dtype.real.bytes
