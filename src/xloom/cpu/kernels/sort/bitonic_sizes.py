"""How many vectors the bitonic network sorts."""

from __future__ import annotations

from xloom.cpu.kernels.sort.lanes import lanes

MOST = 1024
"""Vectors that it sorts sooner than others do."""
FEW_ROWS, ROWS = 4, 16
"""Vectors of a block: of the only one where no more are needed, and of others."""


def padded_count(bits: int, count: int) -> int:
    """How many integers it may write: whole blocks of vectors."""
    block = ROWS * lanes(bits)
    return -(-count // block) * block
