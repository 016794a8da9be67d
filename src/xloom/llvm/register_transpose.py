"""Squares of vectors in registers."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from xloom.llvm.types import I32

_BLOCK_BITS = 128
"""Of the parts of a vector in which one instruction interleaves, or which it moves as they are."""


def transposed(b: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors.

    Each of log2(side) rounds changes a bit of the lines' numbers for one of the lanes', by what a processor has an
    instruction for: first within blocks, whose halves are interleaved; then blocks, of which those of even numbers and
    those of odd ones of two lines become a line. LLVM takes a hundred milliseconds to find instructions for other ways.
    """
    lanes = len(lines)
    element = lines[0].type.element
    block = min(lanes, _BLOCK_BITS // (element.width if isinstance(element, ir.IntType) else _BITS[str(element)]))

    def interleaved(k: int, second: int) -> int:
        at = k % block
        return k - at + at // 2 + second * (block // 2) + lanes * (at % 2)

    def of_every_other_block(k: int, second: int) -> int:
        return (k // block * 2 + second) * block + k % block

    bit = block // 2
    while bit:
        lines = _round(b, lines, bit, interleaved)
        bit //= 2
    bit = block
    while bit < lanes:
        lines = _round(b, lines, bit, of_every_other_block)
        bit *= 2
    return lines


_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def _round(b: ir.IRBuilder, lines: list[ir.Value], bit: int, source: Callable[[int, int], int]) -> list[ir.Value]:
    """Lines in place of two whose numbers differ in `bit`: lane k of the first or second is lane `source` of both."""
    lanes = len(lines)
    masks = [[source(k, second) for k in range(lanes)] for second in (0, 1)]
    constants = [ir.Constant(ir.VectorType(I32, lanes), mask) for mask in masks]
    return [b.shuffle_vector(lines[n & ~bit], lines[n | bit], constants[bool(n & bit)]) for n in range(lanes)]
