"""Which rows are sorted by vectors, and which of these on the stack."""

from __future__ import annotations

from xloom.cpu.kernels.sort.lanes import lanes
from xloom.cpu.kernels.sort.rows import Rows
from xloom.llvm.target import Target

_STACK_BYTES = 1 << 17
"""The greatest array on the stack."""
_MANY_STACK_BYTES = 1 << 18
"""The same where there are rows enough for all threads."""
SEGMENTS = 4
"""Of a long row, for threads to share."""
_LEAST_ELEMENTS = 16
"""In the shortest rows that leave few lanes of vectors idle."""


def sorts(rows: Rows, bits: int, target: Target) -> bool:
    """True for rows of elements that vectors of the target sort sooner than others do: narrow ones on the stack."""
    if rows.size < max(_LEAST_ELEMENTS, lanes(bits)):
        return False
    return partitions(bits, target) or (target.moves_lanes(bits) and is_short(rows, bits, in_output=True))


def partitions(bits: int, target: Target) -> bool:
    """True for integers of so many bits that vectors of the target part sooner than others: those of a byte are few."""
    return bits > 8 and target.packs_lanes(bits)


def is_short(rows: Rows, bits: int, *, in_output: bool) -> bool:
    """True for rows of integers that are sorted on the stack: each is read as a whole before it is written."""
    most = _MANY_STACK_BYTES if not in_output and rows.count >= 2 * SEGMENTS else _STACK_BYTES
    return rows.size * bits // 8 <= most
