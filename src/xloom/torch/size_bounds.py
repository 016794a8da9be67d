"""Which sizes share a program: all up to a bound, and the sizes that are tried to find out what depends on them."""

from __future__ import annotations

SMALLEST = 8


def bound_of(size: int) -> int:
    """The bound of the program that a size of at least 2 runs in: at most a quarter more, or 8."""
    step = max(SMALLEST, 1 << max((size - 1).bit_length() - 3, 0))
    return -(-size // step) * step


def samples_of(bound: int) -> list[int]:
    """Sizes that show what depends on the size: the bound, the smallest that has it, and one between."""
    smallest = bound
    while smallest > 2 and bound_of(smallest - 1) == bound:
        smallest -= 1
    return [bound, smallest, bound - 3]
