"""Where temporary arrays lie: in results that are yet to be written, and in the arena."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from xloom.codegen.thresholds import ALIGNMENT, POOLED

if TYPE_CHECKING:
    from xloom.codegen.buffers.assignment import BufferAllocation

MANY = 4096
"""Slots for which the best place is looked for, the largest ones: it takes time as the square of their number."""


def can_hold_others(result: BufferAllocation) -> bool:
    """True for results whose memory is aligned, whoever calls the program."""
    return result.nbytes >= POOLED


def assign_offsets(slots: Iterable[BufferAllocation], rooms: Sequence[BufferAllocation]) -> int:
    """Gives slots offsets so that those that live at once do not overlap; returns the bytes of arena that all need.

    `rooms` are results: each may hold slots that are dead before it is written.
    """
    placed: dict[BufferAllocation | None, _Placed] = {None: _Placed(), **{room: _Placed() for room in rooms}}
    by_size = sorted(slots, key=lambda s: -s.nbytes)
    top = 0
    for slot in by_size[:MANY]:
        for room in rooms:
            if slot.last >= room.first or slot.nbytes > room.nbytes:
                continue
            at = placed[room].free(slot)
            if at + slot.nbytes <= room.nbytes:
                slot.home = room
                break
        else:
            slot.home, at = None, placed[None].free(slot)
            top = max(top, at + slot.nbytes)
        slot.offset = at
        placed[slot.home].add(slot)
    return _in_turn(by_size[MANY:], _aligned(top))


class _Placed:
    """Slots that have their place in one memory, by offset."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, slot: BufferAllocation) -> None:
        """One more."""
        insort(self._rows, (slot.offset, slot.offset + slot.nbytes, slot.first, slot.last))

    def free(self, slot: BufferAllocation) -> int:
        """The least offset at which nothing lies while the slot lives."""
        at, nbytes, first, last = 0, slot.nbytes, slot.first, slot.last
        for begin, end, since, until in self._rows:
            if since <= last and first <= until:
                if at + nbytes <= begin:
                    break
                at = max(at, _aligned(end))
        return at


def _in_turn(slots: Iterable[BufferAllocation], top: int) -> int:
    """Gives slots offsets from `top` on in the order in which they begin to live, and returns where all end.

    Each takes the place of one of about its size that is dead by then, or a new one.
    """
    living: list[tuple[int, int, int]] = []
    free: defaultdict[int, list[int]] = defaultdict(list)
    for slot in sorted(slots, key=lambda s: s.first):
        while living and living[0][0] < slot.first:
            _, size, at = heappop(living)
            free[size].append(at)
        size = _aligned(slot.nbytes)
        slot.home, slot.offset = None, free[size].pop() if free[size] else top
        top = max(top, slot.offset + size)
        heappush(living, (slot.last, size, slot.offset))
    return top


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
