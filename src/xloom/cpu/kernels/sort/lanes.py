"""Vectors of the integers that are sorted: as many as a register of 64 bytes holds."""

from __future__ import annotations

from llvmlite import ir

BYTES = 64
"""Of a vector."""


def lanes(bits: int) -> int:
    """How many integers a vector holds; scratch memory is longer by so many than what is sorted."""
    return 8 * BYTES // bits


def vector(bits: int) -> ir.VectorType:
    """The type of a vector of them."""
    return ir.VectorType(ir.IntType(bits), lanes(bits))
