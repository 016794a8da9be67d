"""Where temporary arrays lie: in results that are yet to be written, and in the arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xloom.cpu.memory import ALIGNMENT, KEPT_BYTES

if TYPE_CHECKING:
    from xloom.cpu.buffers import Slot


def has_room(result: Slot) -> bool:
    """True for results whose memory is aligned, whoever calls the program."""
    return result.nbytes >= KEPT_BYTES


def place(slots: Iterable[Slot], rooms: Sequence[Slot]) -> int:
    """Gives slots offsets so that those that live at once do not overlap; returns the bytes of arena that all need.

    `rooms` are results: each may hold slots that are dead before it is written.
    """
    placed: dict[Slot | None, list[Slot]] = {None: [], **{room: [] for room in rooms}}
    top = 0
    for slot in sorted(slots, key=lambda s: -s.nbytes):
        for room in rooms:
            if slot.last >= room.first or slot.nbytes > room.nbytes:
                continue
            at = _free(slot, placed[room])
            if at + slot.nbytes <= room.nbytes:
                slot.home = room
                break
        else:
            slot.home, at = None, _free(slot, placed[None])
            top = max(top, at + slot.nbytes)
        slot.offset = at
        placed[slot.home].append(slot)
    return _aligned(top)


def _free(slot: Slot, placed: list[Slot]) -> int:
    """The least offset at which nothing lies while the slot lives."""
    at = 0
    for begin, end in sorted(
        (p.offset, p.offset + p.nbytes) for p in placed if p.first <= slot.last and slot.first <= p.last
    ):
        if at + slot.nbytes <= begin:
            break
        at = max(at, _aligned(end))
    return at


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
