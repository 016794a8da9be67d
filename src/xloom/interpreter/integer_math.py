"""Integer functions that NumPy lacks, or gives other values at the edges; arithmetic wraps."""

from __future__ import annotations

import numpy as np

from xloom.hlo.dtype import DType

Array = np.ndarray


def truncated_division(x: Array, y: Array) -> tuple[Array, Array]:
    """Quotient rounded to zero and remainder; x/0 is all ones and x rem 0 is x; INT_MIN/-1 wraps."""
    x, y = np.broadcast_arrays(x, y)
    zero = y == 0
    safe = np.where(zero, np.ones_like(y), y)
    if x.dtype.kind == "u":
        quotient, rest = x // safe, x % safe
    else:
        minus = safe == -1
        safe = np.where(minus, np.ones_like(y), safe)
        rest = np.fmod(x, safe)
        quotient = (x - rest) // safe
        quotient = np.where(minus, np.negative(x), quotient)
        rest = np.where(minus, np.zeros_like(x), rest)
    ones = np.full_like(x, -1) if x.dtype.kind == "i" else np.full_like(x, np.iinfo(x.dtype).max)
    return np.where(zero, ones, quotient).astype(x.dtype), np.where(zero, x, rest).astype(x.dtype)


def power(x: Array, y: Array) -> Array:
    """By squaring, wrapping; a negative exponent leaves 1, -1 or 0 as 1/x truncates."""
    x, y = np.broadcast_arrays(x, y)
    out, base, exponent = np.ones_like(x), x.copy(), np.where(y < 0, np.zeros_like(y), y).copy()
    while np.any(exponent != 0):
        odd = (exponent & 1) != 0
        out = np.where(odd, out * base, out)
        base = base * base
        exponent = exponent >> 1
    if x.dtype.kind == "i":
        odd = (y & 1) != 0
        inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0)).astype(x.dtype)
        out = np.where(y < 0, inverse, out)
    return out


def unsigned_bits(x: Array, dtype: DType) -> Array:
    """The value as an unsigned 64-bit integer of `dtype.bits` bits."""
    width = 1 if dtype.name == "pred" else dtype.bits
    wide = x.astype(np.int64) if dtype.name != "u64" else x
    return wide.astype(np.uint64) & np.uint64((1 << width) - 1)


def low_bits(x: Array, dtype: DType) -> Array:
    """The low `dtype.bits` bits, as a signed or unsigned 64-bit integer."""
    raw = x.astype(np.uint64) if x.dtype.kind == "u" else x.astype(np.int64).view(np.uint64)
    mask = np.uint64((1 << dtype.bits) - 1)
    raw = raw & mask
    if dtype.name.startswith("s"):
        top = (raw >> np.uint64(dtype.bits - 1)) & np.uint64(1)
        return np.where(top, raw | ~mask, raw).astype(np.uint64).view(np.int64)
    return raw


def bit_length(bits: Array) -> Array:
    """How many bits of unsigned 64-bit integers are left without the zeros above the highest one."""
    length = np.zeros(bits.shape, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        high = bits >> np.uint64(shift)
        taken = high != 0
        length += np.where(taken, shift, 0)
        bits = np.where(taken, high, bits)
    return length + (bits != 0).astype(np.int64)
