"""How a length is transformed: radices of passes, or a convolution of a better length; and tables of roots of unity."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUTTERFLIES = (8, 4, 2, 3, 5, 7, 11, 13)
"""Radices that are transformed in registers."""
PRIMES = tuple(p for p in range(17, 100) if all(p % k for k in range(2, 10)))
"""Radices that are transformed by loops; a convolution is faster for greater ones."""
_LONG = 2048
"""Lines above this length are transformed as the rows and columns of a matrix."""
_SHORT = 64
_MANY = 8
"""Lines of fewer points need not be split, nor do so many lines: each is a lane of vectors."""


@lru_cache(maxsize=256)
def radices(n: int) -> tuple[int, ...] | None:
    """Radices whose product is n; None where n has a great prime factor."""
    out = []
    for radix in BUTTERFLIES + PRIMES:
        while n % radix == 0:
            out.append(radix)
            n //= radix
    # 8 * 2 is slower than 4 * 4
    if 2 in out and 8 in out:
        out.remove(2)
        out.remove(8)
        out += [4, 4]
    return tuple(out) if n == 1 else None


@lru_cache(maxsize=256)
def convolution_length(n: int) -> int:
    """The least length with small radices in which a chirp of length n does not wrap."""
    least = 2 * n - 1
    bits = least.bit_length()
    odd = [3**i * 5**j for i, j in product(range(3), range(2))]
    return min(f << k for f in odd for k in range(bits + 1) if f << k >= least)


def split(n: int, lines: int) -> int:
    """The height of the matrix that a line is transformed as; 1 for a line that is done at once.

    Long lines are, and those that are too few to fill vectors.
    """
    return 1 if n <= _LONG and (n < _SHORT or lines >= _MANY) else _height(n)


def why_split(n: int) -> str:
    """Why a line of which `split` makes a matrix is not done at once."""
    return "a line at once would leave the near cache" if n > _LONG else "they are too few to fill vectors"


@lru_cache(maxsize=256)
def _height(n: int) -> int:
    return max(d for d in range(1, int(n**0.5) + 1) if n % d == 0)


def roots(n: int, sign: int, steps: np.ndarray) -> NDArray[np.complex128]:
    """exp(sign 2 pi i k / n) for each k of `steps`."""
    angle = 2 * np.pi * (steps % n) / n
    return np.cos(angle) + sign * 1j * np.sin(angle)
