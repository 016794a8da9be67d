"""How much memory the buffers take that tensors of the device have: now, and at most."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from xloom.pjrt import Buffer

_bytes: dict[weakref.ref[Buffer], int] = {}
"""Of each buffer that lives. A dictionary's changes are whole, in whichever thread a buffer dies."""
_peak = 0


def hold(buffers: Iterable[Buffer]) -> None:
    """Counts buffers as long as they live."""
    for buffer in buffers:
        _bytes[weakref.ref(buffer, _forget)] = buffer.nbytes


def _forget(reference: weakref.ref[Buffer]) -> None:
    _bytes.pop(reference, None)


def held() -> int:
    """Bytes now."""
    return sum(list(_bytes.values()))


def count() -> int:
    """Buffers now."""
    return len(_bytes)


def peak() -> int:
    """The most bytes since the start, or the last `reset_peak`, that there were when a program had been started."""
    note_peak()
    return _peak


def note_peak() -> None:
    """Has `peak` know of what there is now."""
    global _peak
    _peak = max(_peak, held())


def reset_peak() -> None:
    """Begins anew with what there is now."""
    global _peak
    _peak = held()
