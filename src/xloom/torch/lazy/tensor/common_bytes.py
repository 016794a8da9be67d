"""Which parts of memories have bytes in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter


def with_common_bytes(parts: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[int, int]]:
    """The last members of each two parts that have: a part is a memory, where it begins and ends there, and a number.

    Those that lie apart take no time for each two of them: operators of many tensors may have parts of one memory.
    """
    ordered = sorted(parts, key=itemgetter(0, 1))
    for k, (memory, _, end, number) in enumerate(ordered):
        for others, begins, ends, other in islice(ordered, k + 1, None):
            if others != memory or begins >= end:
                break
            if begins < ends:
                yield number, other
