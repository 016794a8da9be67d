"""Integers in the order of floats, of which the maximum of two is one operation.

The order is -inf < ... < -0 < +0 < ... < inf < NaN: negative NaNs, whose bits come before those of -inf, wrap around to
the end. Each step then waits for one operation, where NaN and the zeros would make it five.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir


def key_of(b: ir.IRBuilder, bits: ir.Value, mantissa: int, *, negates: bool) -> ir.Value:
    """The key of a float's bits, or of those in each lane of a vector; of the negated number where that is asked."""
    bits = _negated(b, bits) if negates else bits
    return b.sub(ordered_bits(b, bits), _constant(bits.type, (1 << mantissa) - 1))


def bits_of(b: ir.IRBuilder, key: ir.Value, mantissa: int, *, negates: bool) -> ir.Value:
    """The bits of the float that has this key."""
    bits = ordered_bits(b, b.add(key, _constant(key.type, (1 << mantissa) - 1)))
    return _negated(b, bits) if negates else bits


def least_key(width: int) -> int:
    """The key of -inf, or of inf where numbers are negated."""
    return -(1 << (width - 1))


def ordered_bits(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """An integer in IEEE 754's total order of a float's bits, or back; in each lane, of vectors.

    Negative numbers have the bits of their size inverted: the larger that is, the less they are.
    """
    width = _width(bits.type)
    sign = b.ashr(bits, _constant(bits.type, width - 1))
    return b.xor(bits, b.lshr(sign, _constant(bits.type, 1)))


def _negated(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return b.xor(bits, _constant(bits.type, 1 << (_width(bits.type) - 1)))


def _width(kind: Any) -> int:
    return (kind.element if isinstance(kind, ir.VectorType) else kind).width


def _constant(kind: Any, number: int) -> ir.Constant:
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)
