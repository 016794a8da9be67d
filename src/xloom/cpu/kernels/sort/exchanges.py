"""Which elements sorting networks compare."""

from __future__ import annotations

from collections.abc import Iterator


def merge_exchange(size: int) -> Iterator[tuple[int, int, int]]:
    """Batcher's: (d, p, r), one after the other: i and i + d are brought in order for all i for which i & p is r."""
    if size < 2:
        return
    top = 1 << (size - 1).bit_length() - 1
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            yield d, p, r
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


def bitonic_merge(size: int) -> Iterator[int]:
    """Distances, one after the other: i and i + d are brought in order for all i for which i & d is 0."""
    distance = size // 2
    while distance:
        yield distance
        distance //= 2
