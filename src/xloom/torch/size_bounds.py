"""Which sizes share a program: all up to a bound, and the sizes that are tried to find out what depends on them."""

from __future__ import annotations

SMALLEST = 8
SMALLEST_OF_FEW = 64
"""Where all that a program computes is little, what is computed in vain costs less than programs do."""
FEW = 1 << 16
"""So many elements are little, of all arrays of a program together."""


def bound_of(size: int, smallest: int = SMALLEST) -> int:
    """The bound of the program that a size of at least 2 runs in: at most a quarter more, or `smallest`, or 8 for 8."""
    step = max(smallest if size > SMALLEST else SMALLEST, 1 << max((size - 1).bit_length() - 3, 0))
    return -(-size // step) * step


def samples_of(bound: int, smallest: int = SMALLEST) -> list[int]:
    """Sizes that show what depends on the size: the bound, the smallest that has it, and one between."""
    first = bound
    while first > 2 and bound_of(first - 1, smallest) == bound:
        first -= 1
    return [bound, first, bound - 3]
