"""Nested loops over the dimensions of arrays with constant strides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from llvmlite import ir

from xloom.llvm.loop import Hint, hints_for, loop
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import I64, i64


class Dimension(NamedTuple):
    """How many steps, and how far each goes in every array."""

    size: int
    strides: tuple[int, ...]


def row_major(dims: Sequence[int]) -> list[int]:
    """The strides of a dense array."""
    out, stride = [], 1
    for size in reversed(dims):
        out.append(stride)
        stride *= size
    return out[::-1]


def merged(dims: Sequence[Dimension]) -> list[Dimension]:
    """A walk with fewer dimensions: without those of one step, and neighbours that are dense in each other as
    one."""
    out: list[Dimension] = []
    for size, strides in dims:
        if size == 1:
            continue
        if out and all(outer == inner * size for outer, inner in zip(out[-1].strides, strides, strict=True)):
            out[-1] = Dimension(out[-1].size * size, strides)
        else:
            out.append(Dimension(size, strides))
    return out


def advance(b: ir.IRBuilder, offsets: Sequence[ir.Value], i: ir.Value, strides: Sequence[int]) -> list[ir.Value]:
    """`offset + i * stride` for each array."""
    return [o if s == 0 else plus(b, o, times(b, i, s)) for o, s in zip(offsets, strides, strict=True)]


def times(b: ir.IRBuilder, i: ir.Value, factor: int | SymbolicDimension) -> ir.Value:
    """i * factor, which does not overflow."""
    return i if factor == 1 else b.mul(i, i64(factor), flags=["nsw"])


def plus(b: ir.IRBuilder, x: ir.Value, y: ir.Value | int | SymbolicDimension) -> ir.Value:
    """x + y, which does not overflow."""
    if isinstance(y, int):
        return b.add(x, I64(y), flags=["nsw"]) if y else x
    if isinstance(y, SymbolicDimension):
        y = y.loaded()
    if isinstance(x, ir.Constant) and x.constant == 0:
        return y
    return b.add(x, y, flags=["nsw"])


@contextmanager
def nest(
    b: ir.IRBuilder, dims: Sequence[Dimension], offsets: Sequence[ir.Value], innermost: Sequence[Hint] = ()
) -> Iterator[list[ir.Value]]:
    """Loops, the first dimension outermost, around what is emitted in the `with`, which gets the arrays' offsets.

    `innermost` are hints for the last one, by default those of vectors where all arrays have neighbours along it.
    """
    with ExitStack() as stack:
        here = list(offsets)
        for k, (size, strides) in enumerate(dims):
            is_last = k == len(dims) - 1
            row = is_last and all(s in (0, 1) for s in strides)  # of neighbours: vectors, if anything
            hints = innermost if is_last and innermost else hints_for(size) if row else ()
            i = stack.enter_context(loop(b, 0, size, hints=hints))
            here = advance(b, here, i, strides)
        yield here
