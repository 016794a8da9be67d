"""How much memory the buffers take that tensors of the device have: now, and at most."""

from __future__ import annotations

import threading
import weakref

from xloom.pjrt import Buffer
from xloom.torch.lazy.tensor.array_type import ArrayType

_held: list[tuple[weakref.ref[Buffer], int]] = []
"""Buffers that lived when it was last looked, and their bytes. A callback for each would take longer than to look."""
_changes = threading.Lock()
_LOOKED_AT_AFTER = 4096
"""So many more, it is looked in any case."""
_peak = 0


def hold(type: ArrayType, buffer: Buffer) -> None:
    """Counts a buffer of a type as long as it lives."""
    with _changes:
        _held.append((weakref.ref(buffer), type.nbytes))
    if not len(_held) % _LOOKED_AT_AFTER:
        _living()


def held() -> int:
    """Bytes now."""
    return sum([nbytes for _, nbytes in _living()])


def count() -> int:
    """Buffers now."""
    return len(_living())


def _living() -> list[tuple[weakref.ref[Buffer], int]]:
    """Those of them that live, which are all that is known from now on."""
    with _changes:
        _held[:] = living = [each for each in _held if each[0]() is not None]
    return living


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
