"""A block of the result in registers: `rows` scalars of one operand times `vectors` vectors of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.hlo.dtype import DType
from xloom.llvm.loop import allocate, loop
from xloom.llvm.symbolic_dimension import SymbolicDimension, greatest, if_less, least
from xloom.llvm.types import I8, I64, POINTER, element_pointer, i64

TALLEST = 14
"""Rows at most: with two vectors of columns, 28 sums of 32 registers."""


class Tile(NamedTuple):
    """The size of the block: `rows` by `vectors` of `lanes` elements."""

    arithmetic: Arithmetic
    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """How many columns the block has."""
        return self.vectors * self.lanes


def share(total: int, most: int) -> int:
    """The size of equal pieces of `total`, each at most `most`."""
    return greatest(1, -(-total // greatest(1, -(-total // most))))


def needed_lanes(arithmetic: Arithmetic, count: int) -> int:
    """The lanes of the least vector that holds `count` elements, or of the widest."""
    lanes = arithmetic.lanes
    while lanes > 1 and 2 * count <= lanes:
        lanes //= 2
    return lanes


def fitting(arithmetic: Arithmetic, rows: int, columns: int, sums: int, tallest: int = TALLEST) -> Tile:
    """A tile of at most that many vectors of sums for so many rows and columns, with little of it over the edges."""
    lanes = needed_lanes(arithmetic, columns)
    tall, vectors = extent(arithmetic, rows, columns, sums, tallest)
    return Tile(arithmetic, int(tall), int(vectors), lanes)


def extent(arithmetic: Arithmetic, rows: int, columns: int, sums: int, tallest: int = TALLEST) -> tuple[int, int]:
    """The rows and vectors of that tile."""
    budget = sums // arithmetic.parts
    whole = -(-columns // needed_lanes(arithmetic, columns))
    tall = share(rows, least(tallest, budget // least(whole, 2)))
    if arithmetic.has_third_vector and whole >= _MANY_VECTORS:
        # three vectors of four rows have as many sums as two of six: batches are multiples of four
        low = share(rows, budget // 3)
        over, less = (
            -(-rows // height) * height * -(-whole // vectors) * vectors for height, vectors in ((tall, 2), (low, 3))
        )
        tall = if_less(_LESS[0] * less, _LESS[1] * over, low, tall)
    return tall, share(whole, least(8, budget // tall))


def trimmed(tile: Tile, rows: int) -> Tile:
    """The tile, or one that is a few rows lower, of which fewer are done twice where `rows` end.

    It is worth code for other heights where products stay as they are.
    """
    if tile.arithmetic.parts * tile.rows * tile.vectors < _MANY_SUMS:
        return tile

    def cost(height: int) -> int:
        return -(-rows // height) * height * (_ROW_WORTH - height)

    best = tile.rows
    for less in range(1, _LOWER + 1):
        height = share(rows, TALLEST - less)
        best = if_less(cost(height), cost(best), height, best)
    return tile._replace(rows=int(best))


_MANY_SUMS, _LOWER = 20, 4
"""Of so many sums, tiles that are some rows lower still have enough to keep the multipliers busy."""
_ROW_WORTH = 114
"""For one row less in each tile, at least one in a hundred rows of the whole that are done twice is saved."""
_MANY_VECTORS = 12
"""Of columns, that are cut to threes with little left over."""
_LESS = 17, 16
"""Sums with the edges of two vectors' tiles, for those of three vectors', from which on these are better."""


class Sums:
    """The sums of one tile."""

    def __init__(self, b: ir.IRBuilder, tile: Tile):
        self.tile = tile
        kind = tile.arithmetic.kind(tile.lanes)
        self._pointers = [
            [[allocate(b, kind) for _ in range(tile.arithmetic.parts)] for _ in range(tile.vectors)]
            for _ in range(tile.rows)
        ]

    def get(self, b: ir.IRBuilder, row: int, vector: int) -> Parts:
        """The sums of `lanes` columns of a row."""
        kind = self.tile.arithmetic.kind(self.tile.lanes)
        return [b.load(pointer, typ=kind) for pointer in self._pointers[row][vector]]

    def set(self, b: ir.IRBuilder, row: int, vector: int, value: Parts) -> None:
        """Sets the sums of `lanes` columns of a row."""
        for pointer, part in zip(self._pointers[row][vector], value, strict=True):
            b.store(part, pointer)

    def clear(self, b: ir.IRBuilder) -> None:
        """Sets all sums of the tile to zero."""
        for row in range(self.tile.rows):
            for vector in range(self.tile.vectors):
                self.set(b, row, vector, self.tile.arithmetic.zero(self.tile.lanes))

    def multiply(self, b: ir.IRBuilder, row: Callable[[int], Parts], vector: Callable[[int], Parts]) -> None:
        """Adds the products of scalars `row(r)` and vectors `vector(v)`, for one index of the depth."""
        arithmetic, lanes = self.tile.arithmetic, self.tile.lanes

        def add(r: int, x: Parts, v: int, y: Parts) -> None:
            self.set(b, r, v, arithmetic.multiply_add(b, x, y, self.get(b, r, v)))

        # the fewer ones wait in registers for the others, which come one by one
        if self.tile.rows < self.tile.vectors:
            scalars = [arithmetic.splat(b, row(r), lanes) for r in range(self.tile.rows)]
            for v in range(self.tile.vectors):
                y = vector(v)
                for r, x in enumerate(scalars):
                    add(r, x, v, y)
            return
        vectors = [vector(v) for v in range(self.tile.vectors)]
        for r in range(self.tile.rows):
            x = arithmetic.splat(b, row(r), lanes)
            for v, y in enumerate(vectors):
                add(r, x, v, y)

    def in_memory(self, b: ir.IRBuilder, lefts: Sequence[int]) -> Callable[[ir.Value, ir.Value, int], Parts]:
        """Puts vectors at columns `lefts` of each row into memory; `get(row, column, lanes)` then loads any of them."""
        tile, arithmetic = self.tile, self.tile.arithmetic
        memory = allocate(b, arithmetic.element, tile.rows * arithmetic.parts * tile.columns)
        memory.align, memory.type = 64, POINTER
        align = arithmetic.dtype.real.bytes

        def address(row: ir.Value, part: int, column: ir.Value) -> ir.Value:
            line = b.add(b.mul(row, i64(arithmetic.parts)), i64(part))
            at = b.add(b.mul(line, i64(tile.columns)), column)
            return b.gep(memory, [at], inbounds=True, source_etype=arithmetic.element)

        def get(row: ir.Value, column: ir.Value, lanes: int) -> Parts:
            kind = arithmetic.kind(lanes)
            return [b.load(address(row, p, column), typ=kind, align=align) for p in range(arithmetic.parts)]

        for r in range(tile.rows):
            for v, left in enumerate(lefts):
                for p, part in enumerate(self.get(b, r, v)):
                    b.store(part, address(i64(r), p, i64(left)), align=align)
        return get


def spaced(
    b: ir.IRBuilder, pointer: ir.Value, dtype: DType, stride: int | SymbolicDimension
) -> Callable[[int], ir.Value]:
    """The addresses of the elements that lie `step` apart from `pointer` on, by number.

    Of a step that is known when the code runs, processors add a few small multiples as they load; so that every fifth
    element is enough of an address of its own.
    """
    if isinstance(stride, int):
        return lambda r: element_pointer(b, pointer, dtype, I64(r * stride))
    distance = stride * dtype.bytes
    return apart(b, pointer, lambda times: i64(times * distance))


def apart(b: ir.IRBuilder, pointer: ir.Value, distance: Callable[[int], ir.Value]) -> Callable[[int], ir.Value]:
    """The same, where `distance(times)` gives how many bytes there are between so many of them."""
    once, thrice = distance(1), distance(3)
    bases: dict[int, ir.Value] = {0: pointer}

    def address(r: int) -> ir.Value:
        first, rest = 5 * (r // 5), r % 5
        if first not in bases:
            bases[first] = b.gep(pointer, [distance(first)], inbounds=True, source_etype=I8)
        if rest == 0:
            return bases[first]
        factor, index = (1, thrice) if rest == 3 else (rest, once)
        return b.gep(bases[first], [b.mul(index, I64(factor))], inbounds=True, source_etype=I8)

    return address


@contextmanager
def rolled(
    b: ir.IRBuilder,
    begin: ir.Value | int | SymbolicDimension,
    end: ir.Value | int | SymbolicDimension,
    stride: int | SymbolicDimension = 1,
    name: str = "i",
) -> Iterator[ir.Value]:
    """A loop that LLVM leaves as it is: neither unrolled nor vectorised."""
    with loop(b, begin, end, stride, name) as i:
        yield i
    latch = i.incomings[-1][1].terminator
    module = b.module
    hints = [module.add_metadata(["llvm.loop.unroll.disable"]), module.add_metadata([_VECTORIZE, ir.IntType(1)(0)])]
    # a loop's node names itself first
    node = ir.MDValue(module, [module.add_metadata([]), *hints], name=str(len(module.metadata)))
    node.operands = (node, *hints)
    latch.set_metadata("llvm.loop", node)


_VECTORIZE = "llvm.loop.vectorize.enable"


def nest(
    b: ir.IRBuilder,
    loops: Sequence[tuple[ir.Value | int, Sequence[int]]],
    offsets: Sequence[ir.Value],
    body: Callable[[list[ir.Value]], None],
) -> None:
    """Nested loops, each a count and the steps of the offsets; `body(offsets)` is their inside."""
    if not loops:
        body(list(offsets))
        return
    (size, steps), *rest = loops
    unroll = 1
    if not rest and isinstance(size, int):
        unroll = size if size <= _SHORT else 2 - size % 2
    with rolled(b, 0, size, unroll, "k") as k:
        for u in range(unroll):
            at = [
                b.add(o, b.mul(b.add(k, i64(u)) if u else k, i64(s), flags=["nsw"]), flags=["nsw"]) if s else o
                for o, s in zip(offsets, steps, strict=True)
            ]
            nest(b, rest, at, body)


_SHORT = 3
"""Iterations that are not worth a loop. Of longer loops two are done at once: of more, LLVM moves the loads of all
before the first product, and has no registers for them."""


def at_most(b: ir.IRBuilder, index: ir.Value, limit: int) -> ir.Value:
    """The lesser of the two."""
    return b.select(b.icmp_signed("<", index, i64(limit)), index, i64(limit))
