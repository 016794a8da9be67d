"""Offsets of temporary arrays: in results that are yet to be written, and in the arena."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffers.allocation import BufferAllocation

MANY = 4096
"""Allocations for which the best offset is looked for, the largest: it takes time as the square of their number."""


def assign_offsets(temporaries: Iterable[BufferAllocation], results: Sequence[BufferAllocation]) -> int:
    """Gives temporaries offsets so that those that are alive at once do not overlap; returns the arena's bytes.

    Each of `results` may hold temporaries that are dead before it is written.
    """
    space: dict[BufferAllocation | None, _FreeSpace] = {None: _FreeSpace(), **{r: _FreeSpace() for r in results}}
    by_size = sorted(temporaries, key=lambda a: -a.nbytes)
    top = 0
    for temporary in by_size[:MANY]:
        for result in results:
            if temporary.last >= result.first or temporary.nbytes > result.nbytes:
                continue
            offset = space[result].free(temporary)
            if offset + temporary.nbytes <= result.nbytes:
                temporary.colocated_with = result
                break
        else:
            temporary.colocated_with, offset = None, space[None].free(temporary)
            top = max(top, offset + temporary.nbytes)
        temporary.offset = offset
        space[temporary.colocated_with].add(temporary)
    return _in_turn(by_size[MANY:], _aligned(top))


class _FreeSpace:
    """What one memory has free beside the allocations that have their offset there."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, int, int, int]] = []
        """The first byte of each, the one behind its last, and its live range."""

    def add(self, allocation: BufferAllocation) -> None:
        """Takes the space of an allocation."""
        taken = (allocation.offset, allocation.offset + allocation.nbytes, allocation.first, allocation.last)
        insort(self._taken, taken)

    def free(self, allocation: BufferAllocation) -> int:
        """The least offset at which nothing lies while the allocation is alive."""
        offset, nbytes, first, last = 0, allocation.nbytes, allocation.first, allocation.last
        for begin, end, since, until in self._taken:
            if since <= last and first <= until:
                if offset + nbytes <= begin:
                    break
                offset = max(offset, _aligned(end))
        return offset


def _in_turn(temporaries: Iterable[BufferAllocation], top: int) -> int:
    """Gives temporaries offsets from `top` on in the order in which they begin to live, and returns where all end.

    Each takes the bytes of one of about its size that is dead by then, or new ones.
    """
    living: list[tuple[int, int, int]] = []
    free: defaultdict[int, list[int]] = defaultdict(list)
    for temporary in sorted(temporaries, key=lambda a: a.first):
        while living and living[0][0] < temporary.first:
            _, size, offset = heappop(living)
            free[size].append(offset)
        size = _aligned(temporary.nbytes)
        temporary.colocated_with, temporary.offset = None, free[size].pop() if free[size] else top
        top = max(top, temporary.offset + size)
        heappush(living, (temporary.last, size, temporary.offset))
    return top


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
