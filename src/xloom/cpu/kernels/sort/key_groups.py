"""Keys of long rows in pieces of 32 bits, by which these are sorted one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xloom.cpu.kernels.sort.keys import Key
from xloom.cpu.kernels.sort.rows import Rows

BITS = 32
_SHORT = 1 << 13
"""Elements of rows that need no segments."""


class KeyPart(NamedTuple):
    """Bits of a key, `bits` of them above the lowest `shift`."""

    key: Key
    shift: int
    bits: int


def is_short(rows: Rows) -> bool:
    """True for rows that are sorted on the stack."""
    return rows.size < _SHORT


def groups(keys: Sequence[Key]) -> list[list[KeyPart]]:
    """Keys side by side in 32 bits, as many as fit; the last ones first."""
    parts = [
        KeyPart(key, shift, min(BITS, key.bits - shift)) for key in reversed(keys) for shift in range(0, key.bits, BITS)
    ]
    out: list[list[KeyPart]] = []
    for part in parts:
        if out and sum(p.bits for p in out[-1]) + part.bits <= BITS:
            out[-1].insert(0, part)
        else:
            out.append([part])
    return out
