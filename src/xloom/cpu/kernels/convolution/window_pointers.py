"""The loops over a window's taps, as pointers that move through input and kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.matmul.tile import rolled
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import I8, POINTER, i64

SHORT = 3
"""Iterations that are not worth a loop."""

Loops = Sequence[tuple[ir.Value | int, Sequence[int | SymbolicDimension]]]
"""How often, and how many elements the pointers move each time; the outermost first."""


class WindowPointer(NamedTuple):
    """A pointer to elements of so many bytes."""

    pointer: ir.Value
    nbytes: int

    def after(self, b: ir.IRBuilder, elements: int | SymbolicDimension) -> WindowPointer:
        """The pointer so many elements on."""
        if isinstance(elements, int) and elements == 0:
            return self
        return self._replace(pointer=b.gep(self.pointer, [i64(elements * self.nbytes)], source_etype=I8))


def walk_window(
    b: ir.IRBuilder,
    loops: Loops,
    pointers: Sequence[WindowPointer],
    body: Callable[[Sequence[ir.Value]], None],
    most: int = SHORT,
) -> None:
    """Does `body(pointers)` at all taps of a window, of at most `most` of which the innermost loop is unrolled.

    Each loop moves pointers of its own, so that what lies at a distance from them needs no register: of an index, LLVM
    would make an address for each row of a tile.
    """
    if not loops:
        body([p.pointer for p in pointers])
        return
    (size, steps), *rest = loops
    unroll = 1
    if not rest and isinstance(size, int):
        unroll = size if size <= most else 1 if most == 1 else 2 - size % 2

    def several(first: Sequence[WindowPointer]) -> None:
        for u in range(unroll):
            walk_window(b, rest, [p.after(b, u * s) for p, s in zip(first, steps, strict=True)], body, most)

    if isinstance(size, int) and size == unroll:
        several(pointers)
        return
    kept = [allocate(b, POINTER) for _ in pointers]
    for each, memory in zip(pointers, kept, strict=True):
        b.store(each.pointer, memory)
    with rolled(b, 0, size, unroll, "k"):
        here = [p._replace(pointer=b.load(memory, typ=POINTER)) for p, memory in zip(pointers, kept, strict=True)]
        several(here)
        for each, memory, step in zip(here, kept, steps, strict=True):
            b.store(each.after(b, unroll * step).pointer, memory)
