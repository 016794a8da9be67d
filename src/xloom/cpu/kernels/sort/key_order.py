"""Elements to unsigned integers that order as they do, and back, by vectors.

Of a float below zero all bits but the sign are changed, and then, of all, the bits that integers of its sign or of the
wanted direction differ in: M. Herf, "Radix tricks", 2001.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.llvm.folding_builder import Zeros
from xloom.llvm.vectors import uniform


def representative(b: ir.IRBuilder, key: ElementKey, x: ir.Value) -> ir.Value:
    """One of all elements that are equal: a zero for both, one NaN for all of them."""
    kind, sign = x.type, 1 << (key.dtype.bits - 1)
    if key.equal_zeros:
        x = b.select(b.icmp_unsigned("==", x, uniform(kind, sign)), Zeros(kind, None), x)
    if key.nan is not None:
        size = b.lshr(b.shl(x, uniform(kind, 1)), uniform(kind, 1))
        infinity = sign - (1 << key.dtype.mantissa_bits)
        x = b.select(b.icmp_unsigned(">", size, uniform(kind, infinity)), uniform(kind, key.nan), x)
    return x


def ordered(b: ir.IRBuilder, key: ElementKey, x: ir.Value) -> ir.Value:
    """The keys of elements, each of which represents those that equal it."""
    return b.xor(_by_size(b, key, x), uniform(x.type, key.integer(0)))


def keys_of(b: ir.IRBuilder, key: ElementKey, x: ir.Value) -> ir.Value:
    """The keys of any elements."""
    return ordered(b, key, representative(b, key, x))


def elements_of(b: ir.IRBuilder, key: ElementKey, keys: ir.Value) -> ir.Value:
    """The elements that represent those of the keys."""
    return _by_size(b, key, b.xor(keys, uniform(keys.type, key.integer(0))))


def _by_size(b: ir.IRBuilder, key: ElementKey, x: ir.Value) -> ir.Value:
    """Floats below zero with all bits changed but the sign; done twice, they are what they were."""
    if not key.dtype.is_float:
        return x
    sign = b.ashr(x, uniform(x.type, key.dtype.bits - 1))
    return b.xor(x, b.lshr(sign, uniform(x.type, 1)))
