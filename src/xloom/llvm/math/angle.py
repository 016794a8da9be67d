"""Angles in half-turns: x / pi less an even integer, exactly enough for every x.

x times a multiple-word 1 / pi is formed by error-free products and sums. A large x = x' 2^s, x' an integer, is
multiplied by (2^s / pi) mod 2 instead (Payne and Hanek), since whole turns of an integer count for nothing. The
largest doubles come within 2^-62 of a multiple of pi / 2; four words leave an error below 2^-140.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

from xloom.llvm.constant_table import constant_table
from xloom.llvm.math.compensated import product, sum_of, sum_ordered
from xloom.llvm.math.scalar import F64, Scalar, fma, select

_ROUNDER = 1.5 * 2.0**52
"""A number whose sum with a smaller one is that one rounded to an integer."""
SMALL = 2.0**22
"""Below it three words of 1 / pi leave errors of 2^-140, as four do where it depends on x which they are."""
_STEP = 16
"""Binary digits of 1/π from one row of the table to the next."""
_ROWS = (2047 - 1075) // _STEP + 1
_WORDS = 4
"""Of a row."""
_DIGITS = _STEP * _ROWS + 6 * 53
_TABLE = "xloom.inverse_pi"


def half_turns_f32(x: Scalar) -> tuple[Scalar, Scalar]:
    """r and n (its parity in the low bit) with x / pi = r + n modulo 2 and |r| <= 1/2, of an f32 x >= 0 as f64."""
    # x / 2^shift stays below 2^50, and is an integer where the shift is not 0; the two words leave an error below 2^-55
    high, low = (x.constant(word) for word in inverse_pi(0, 2))
    for shift in (27, 54, 81):
        large = x >= 2.0 ** (shift + 23)
        words = [word * 2.0**-shift for word in inverse_pi(shift, 2)]
        high, low = select(large, words[0], high), select(large, words[1], low)
    return _of_two_words(x, high, low)


def half_turns_f64(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """r, what rounding left of r, and n, as for f32, of an f64 x >= 0."""
    bits = x.bits()
    above = (bits >> 52) - (1023 + 52)
    row = select(above > 0, above, 0) >> 4
    scaled = (bits - (row << (52 + 4))).as_float()
    w1, w2, w3, w4 = _row(row)

    p1, e1 = product(scaled, w1)
    s1 = p1 - (p1 * 0.5).rint() * 2.0
    s1, t1 = sum_ordered(s1, e1)
    p2, e2 = product(scaled, w2)
    s2, t2 = sum_of(s1, p2)
    shifted = s2 + _ROUNDER
    r = s2 - (shifted - _ROUNDER)

    p3, e3 = product(scaled, w3)
    low, l1 = sum_of(t1, t2)
    low, l2 = sum_of(low, e2)
    low, l3 = sum_of(low, p3)
    rest = fma(scaled, w4, ((l1 + l2) + l3) + e3)
    r, r_low = sum_of(r, low)
    return r, r_low + rest, shifted.bits()


def half_turns_of_small(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """r, what rounding left of r, and n, of x >= 0 that is below `SMALL` in f64: no word of 1 / pi depends on x."""
    w1, w2, w3 = inverse_pi(0, 3)
    turns, lost = product(x, w1)
    shifted = turns + _ROUNDER
    second, lost_of_second = product(x, w2)
    low, rest = sum_of(lost, second)
    # both are multiples of what rounding to `turns` can have lost, unless the first is 0
    r, r_low = sum_ordered(turns - (shifted - _ROUNDER), low)
    return r, r_low + fma(x, w3, rest + lost_of_second), shifted.bits()


def half_turns_of_small_f32(x: Scalar) -> tuple[Scalar, Scalar]:
    """The same of an f32 below `SMALL`, as f64; two words are enough."""
    return _of_two_words(x, *map(x.constant, inverse_pi(0, 2)))


def _of_two_words(x: Scalar, high: Scalar, low: Scalar) -> tuple[Scalar, Scalar]:
    turns, lost = product(x, high)
    shifted = turns + _ROUNDER
    return (turns - (shifted - _ROUNDER)) + fma(x, low, lost), shifted.bits()


def _row(index: Scalar) -> list[Scalar]:
    """The four words of (2^(16 index) / pi) mod 2, from a table in the module."""
    b = index.builder
    table: Any = b.module.globals.get(_TABLE)
    if table is None:
        words = [F64.type(word) for k in range(_ROWS) for word in inverse_pi(_STEP * k, _WORDS)]
        table = constant_table(b.module, _TABLE, F64.type, words)
    first = index * _WORDS
    places = [(first + k).value for k in range(_WORDS)]
    pointers = [b.gep(table, [place], inbounds=True, source_etype=F64.type) for place in places]
    return [Scalar(b, b.load(pointer, typ=F64.type)) for pointer in pointers]


@functools.cache
def inverse_pi(shift: int, words: int) -> tuple[float, ...]:
    """(2^shift / pi) modulo 2, in [-1, 1], as a sum of doubles."""
    rest = Fraction(_inverse_pi_bits() << shift, 1 << _DIGITS) % 2
    if rest > 1:
        rest -= 2
    found = []
    for _ in range(words):
        found.append(float(rest))
        rest -= Fraction(found[-1])
    return tuple(found)


@functools.cache
def _inverse_pi_bits() -> int:
    """2^_DIGITS / pi, by Machin's formula; the last digits are not right."""

    def arctan_of_inverse(n: int) -> int:
        term = (1 << _DIGITS) // n
        total, k = term, 1
        while term:
            term = -(term // (n * n)) if term > 0 else -term // (n * n)
            k += 2
            total += term // k
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return (1 << (2 * _DIGITS)) // pi
