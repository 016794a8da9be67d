"""Squares of vectors in registers."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.emit.types import I32


def transposed(b: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, by log2(side) rounds that interleave halves."""
    count = len(lines)
    low = ir.Constant(ir.VectorType(I32, count), [k // 2 + count * (k % 2) for k in range(count)])
    high = ir.Constant(ir.VectorType(I32, count), [k // 2 + count * (k % 2) + count // 2 for k in range(count)])
    half = count // 2
    for _ in range(count.bit_length() - 1):
        pairs = [(lines[k], lines[k + half]) for k in range(half)]
        lines = [b.shuffle_vector(x, y, mask) for x, y in pairs for mask in (low, high)]
    return lines
