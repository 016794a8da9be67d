"""Random bits are encrypted counters: the two ciphers that XLA knows, on vectors of counters.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.llvm.types import I32, I64

LANES = 16
"""Counters a vector."""
Pair = tuple[ir.Value, ir.Value]
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Of Threefry-2x32, by rounds (Salmon et al., 2011)."""


def vector(kind: ir.Type, count: int = LANES) -> ir.VectorType:
    """The type of a vector of integers."""
    return ir.VectorType(kind, count)


def all_equal(kind: ir.Type, value: int) -> ir.Constant:
    """A vector of one constant."""
    return ir.Constant(vector(kind), [value % (1 << kind.width)] * LANES)


def splat(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A vector of one value."""
    one = b.insert_element(ir.Constant(vector(value.type), ir.Undefined), value, I32(0))
    return b.shuffle_vector(one, ir.Constant(one.type, ir.Undefined), ir.Constant(vector(I32), [0] * LANES))


def halves(b: ir.IRBuilder, words: ir.Value) -> Pair:
    """The low and the high 32 bits of vectors of 64."""
    return b.trunc(words, vector(I32)), b.trunc(b.lshr(words, all_equal(I64, 32)), vector(I32))


def joined(b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    """The vector of 64-bit words of two halves."""
    high = b.shl(b.zext(high, vector(I64)), all_equal(I64, 32))
    return b.or_(b.zext(low, vector(I64)), high)


def interleaved(b: ir.IRBuilder, vectors: Sequence[ir.Value]) -> ir.Value:
    """First the first elements of all of one, two or four vectors, then the second ones ..."""
    joined = list(vectors)
    while len(joined) > 1:
        half, n = len(joined) // 2, joined[0].type.count
        mask = ir.Constant(vector(I32, 2 * n), [k // 2 + n * (k % 2) for k in range(2 * n)])
        joined = [b.shuffle_vector(joined[k], joined[k + half], mask) for k in range(half)]
    return joined[0]


def counters(b: ir.IRBuilder, low: ir.Value, high: ir.Value, first: ir.Value) -> Pair:
    """The 128-bit numbers (low, high) + first + 0, 1, ..."""
    lanes = ir.Constant(vector(I64), list(range(LANES)))
    base = splat(b, low)
    lows = b.add(base, b.add(splat(b, first), lanes))
    carry = b.zext(b.icmp_unsigned("<", lows, base), vector(I64))
    return lows, b.add(splat(b, high), carry)


def threefry_2x32(b: ir.IRBuilder, counter: Pair, key: Pair) -> Pair:
    """20 rounds on vectors of 32-bit words."""
    keys = (*key, b.xor(b.xor(*key), all_equal(I32, 0x1BD11BDA)))
    x0, x1 = b.add(counter[0], keys[0]), b.add(counter[1], keys[1])
    for step in range(5):
        for rotation in _ROTATIONS[step % 2]:
            x0 = b.add(x0, x1)
            x1 = b.or_(b.shl(x1, all_equal(I32, rotation)), b.lshr(x1, all_equal(I32, 32 - rotation)))
            x1 = b.xor(x0, x1)
        x0 = b.add(x0, keys[(step + 1) % 3])
        x1 = b.add(x1, b.add(keys[(step + 2) % 3], all_equal(I32, step + 1)))
    return x0, x1


def philox_4x32(b: ir.IRBuilder, counter: Sequence[ir.Value], key: Pair) -> list[ir.Value]:
    """10 rounds on vectors; the counter is two 64-bit words, the key two and the result four 32-bit ones."""
    x0, x1, x2, x3 = (*halves(b, counter[0]), *halves(b, counter[1]))
    k0, k1 = key

    def product(x: ir.Value, factor: int) -> Pair:
        return halves(b, b.mul(b.zext(x, vector(I64)), all_equal(I64, factor)))

    for _ in range(10):
        (low0, high0), (low1, high1) = product(x0, 0xD2511F53), product(x2, 0xCD9E8D57)
        x0, x1, x2, x3 = b.xor(b.xor(high1, x1), k0), low1, b.xor(b.xor(high0, x3), k1), low0
        k0, k1 = b.add(k0, all_equal(I32, 0x9E3779B9)), b.add(k1, all_equal(I32, 0xBB67AE85))
    return [x0, x1, x2, x3]
