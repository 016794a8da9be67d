"""Long sums of a convolution, piece by piece: a piece of the kernel's panel stays in a cache.

A few tiles go over one piece after the other; between pieces their sums are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.convolution.tile_product import Operands
from xloom.cpu.kernels.convolution.tiling import Tiling
from xloom.cpu.kernels.convolution.window_pointers import Loops, WindowPointer, walk_window
from xloom.cpu.kernels.matmul.axes import Axis, digits
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, share
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import POINTER, element_pointer, i64

TILES = 16
"""Tiles that go over a piece before the next."""
_PIECE = 1 / 16
"""Of the second cache, what a piece of a panel takes."""
_MOST_PIECES = 3
"""Of so many the panel stays in the cache as it is."""
_FEW_ROWS = 6
"""Of a tile, whose vectors of the panel are used so seldom that pieces are better in the first cache."""
_PIECE_OF_FIRST = 1 / 2
"""Of that one, what they take."""
_APART = 1024
"""Bytes between rows that find room in few places, of the second cache too."""


class LoopBlocks(NamedTuple):
    """Where the loops of a sum are cut: the number of the loop, and its iterations in a piece."""

    loops: Sequence[tuple[int, Sequence[int]]]
    number: int
    extent: int

    @property
    def axes(self) -> list[Axis]:
        """How the pieces are counted."""
        sizes = [size for size, _ in self.loops[: self.number]]
        return [Axis(n, 0, 0, 0) for n in (*sizes, -(-self.loops[self.number][0] // self.extent))]

    @property
    def count(self) -> int:
        """How many pieces there are."""
        return prod(x.size for x in self.axes)

    @property
    def rows(self) -> int:
        """Rows of the kernel's panel in a piece."""
        return self.extent * prod(size for size, _ in self.loops[self.number + 1 :])

    def piece(self, b: ir.IRBuilder, index: ir.Value) -> tuple[list[ir.Value], Loops]:
        """How far a piece moves the pointers, and the loops inside it."""
        *outer, last = digits(b, self.axes, index)
        first = b.mul(last, i64(self.extent))
        size, strides = self.loops[self.number]
        moved = [b.mul(first, i64(s)) for s in strides]
        for digit, (_, outer_strides) in zip(outer, self.loops, strict=False):
            moved = [b.add(m, b.mul(digit, i64(s))) for m, s in zip(moved, outer_strides, strict=True)]
        length = self.extent if size % self.extent == 0 else at_most(b, b.sub(i64(size), first), self.extent)
        return moved, [(length, strides), *self.loops[self.number + 1 :]]


def blocks_of(chosen: Tiling, loops: Sequence[tuple[int, Sequence[int]]]) -> LoopBlocks | None:
    """How to cut the loops of a sum; None when the panel is small enough."""
    tile, caches = chosen.tile, chosen.tile.arithmetic.target.caches
    is_low = tile.rows <= _FEW_ROWS
    nbytes = int(_PIECE_OF_FIRST * caches.first if is_low else _PIECE * caches.second)
    most = nbytes // (tile.columns * tile.arithmetic.parts * tile.arithmetic.dtype.real.bytes)
    sizes = [size for size, _ in loops]
    if prod(sizes) <= (1 if is_low else _MOST_PIECES) * most:
        return None
    number = next(k for k in range(len(sizes)) if prod(sizes[k + 1 :]) <= most)
    return LoopBlocks(loops, number, share(sizes[number], greatest(1, most // prod(sizes[number + 1 :]))))


def is_scattered(blocks: LoopBlocks, tile: Tile) -> bool:
    """True for pieces that the first cache would hold, but for how far apart their rows lie."""
    nbytes = tile.arithmetic.dtype.bytes
    apart = int(blocks.loops[-1][1][1]) * nbytes
    return apart >= _APART and blocks.rows * tile.columns * nbytes <= tile.arithmetic.target.caches.first


class PieceOfPanel:
    """Memory on the stack for a piece of a panel whose rows lie apart: together they use all of the first cache."""

    def __init__(self, b: ir.IRBuilder, operands: Operands, blocks: LoopBlocks):
        self._b, self._operands, self._tile = b, operands, operands.tiling.tile
        arithmetic = self._tile.arithmetic
        memory = allocate(b, arithmetic.element, int(blocks.rows) * self._tile.columns * arithmetic.parts)
        memory.align, memory.type = 64, POINTER
        self.start = WindowPointer(memory, arithmetic.dtype.bytes)

    def fill(self, w: ir.Value, loops: Loops) -> Loops:
        """Copies the rows that `loops` read from element `w` of the kernel on; returns the loops over the copy."""
        b, tile, lefts = self._b, self._tile, self._operands.tiling.lefts
        kernel, apart = self._operands.w, tile.columns
        inside, steps = [], []
        for size, (dx, dw) in reversed(loops):
            inside.insert(0, (size, (dx, apart)))
            steps.insert(0, (size, (dw, apart)))
            apart = apart * size if not isinstance(size, ir.Value) else 0  # of the outermost loop alone
        source = WindowPointer(
            element_pointer(b, kernel.pointer(self._operands.phase), kernel.dtype, w), kernel.dtype.bytes
        )

        def copy(pointers: Sequence[ir.Value]) -> None:
            here, there = pointers
            for left in lefts:
                row = tile.arithmetic.load(b, here, kernel.dtype, i64(left), tile.lanes)
                tile.arithmetic.store(b, there, kernel.dtype, i64(left), row)

        walk_window(b, steps, (source, self.start), copy)
        return inside


class TileSums:
    """Memory on the stack for the sums of `TILES` tiles."""

    def __init__(self, b: ir.IRBuilder, tile: Tile):
        self._tile = tile
        self._size = tile.rows * tile.vectors * tile.arithmetic.parts
        self._memory = allocate(b, tile.arithmetic.kind(tile.lanes), self._size * TILES)
        self._memory.align, self._memory.type = 64, POINTER

    def put(self, b: ir.IRBuilder, sums: Sums, number: ir.Value) -> None:
        """Keeps the sums of a tile."""
        for pointer, (r, v, p) in self._pointers(b, number):
            b.store(sums.get(b, r, v)[p], pointer)

    def get(self, b: ir.IRBuilder, sums: Sums, number: ir.Value) -> None:
        """Sets them to what was kept."""
        kind = self._tile.arithmetic.kind(self._tile.lanes)
        values: dict[tuple[int, int], list[ir.Value]] = {}
        for pointer, (r, v, _) in self._pointers(b, number):
            values.setdefault((r, v), []).append(b.load(pointer, typ=kind))
        for (r, v), value in values.items():
            sums.set(b, r, v, value)

    def _pointers(self, b: ir.IRBuilder, number: ir.Value) -> list[tuple[ir.Value, tuple[int, int, int]]]:
        tile = self._tile
        kind, first = tile.arithmetic.kind(tile.lanes), b.mul(number, i64(self._size))
        each = [(r, v, p) for r in range(tile.rows) for v in range(tile.vectors) for p in range(tile.arithmetic.parts)]
        return [
            (b.gep(self._memory, [b.add(first, i64(k))], inbounds=True, source_etype=kind), which)
            for k, which in enumerate(each)
        ]
