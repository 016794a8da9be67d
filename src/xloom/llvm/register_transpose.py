"""Squares of vectors in registers, and what is as high but longer."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.types import I32


def transposed(b: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, by log2(side) rounds that interleave halves.

    Of vectors that are longer, each of the results has several columns, one after the other.
    """
    count, lanes = len(lines), lines[0].type.count
    low, high = (
        ir.Constant(ir.VectorType(I32, lanes), [k // 2 + lanes * (k % 2) + first for k in range(lanes)])
        for first in (0, lanes // 2)
    )
    half = count // 2
    for _ in range(count.bit_length() - 1):
        pairs = [(lines[k], lines[k + half]) for k in range(half)]
        lines = [b.shuffle_vector(x, y, mask) for x, y in pairs for mask in (low, high)]
    return lines
