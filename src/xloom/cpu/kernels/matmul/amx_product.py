"""Large products of bf16 or bytes by AMX: tiles of sums stay in registers, those of the operands come from caches.

The left operand is read where it lies if tiles lie there whole, and packed into tiles otherwise, or where many columns
meet it. The right one is packed: all of it at once, or, for few rows, the columns that a thread needs next. A block of
rows stays in the second cache while all columns pass it; sums of a part of a long depth wait in memory for the next.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.amx_packing import TilePacking
from xloom.cpu.kernels.matmul.amx_tiles import (
    ROW_BYTES,
    ROWS,
    TILE_BYTES,
    TileRegisters,
    has_tile_product,
    moved,
    stack_memory,
)
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, linear_offset
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.packed_pairs import narrowed_normal
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.hlo.dtype import DType, bf16, s32
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import divides, greatest, least
from xloom.llvm.types import I1, I8, I64, POINTER, element_pointer, i64

SIDE = 2 * ROWS
"""Rows and columns of what is summed at once: 2 x 2 tiles, of 2 tiles of each operand, which are all registers."""
PAIR_BYTES = 2 * TILE_BYTES
"""Of two tiles side by side, for one step of the depth."""
SUM_BYTES = 4 * TILE_BYTES
_STEPS, _PACKED_STEPS = 16, 64
"""Tiles of the depth at once: columns of two tiles have 32 KiB then, which are packed for that; or 128 KiB, of those
that are packed already, so that most sums need not wait in memory for the next part."""
_BLOCK, _LEAST_BLOCK = 16, 8
"""Pairs of tiles of rows that columns meet at once, at the most and at the least."""
_BLOCK_TILES = 256
"""Pairs of tiles in a block of rows: they have 512 KiB then."""
_COPIED_FOR = 8
"""Pairs of tiles of columns that meet more rows than a block for which these are packed, though they lie evenly apart:
tiles follow one another then, as caches fetch them best."""
_GROUP, _PACKED_GROUP = 4, 32
"""Pairs of tiles of columns that meet a block of rows, where they are packed for it, or are already; at the most."""
_ITEMS = 8
"""Of a product, for threads to share, where it has as many tiles."""
_LEAST, LEAST_PRODUCTS = 16, 1 << 16
"""Rows and columns, and products: of fewer, most of the time goes into packing."""
FASTER = 8
"""How many products of f32 take the time of one of AMX, about."""


def is_tiled(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> bool:
    """True when AMX has the products, there are enough of them, and operands lie so that tiles can be made of them."""
    if not arithmetic.target.has_tiles or not has_tile_product(a.dtype, b.dtype, arithmetic.dtype):
        return False
    rows, columns = count(product.rows), count(product.columns)
    if rows < _LEAST or columns < _LEAST or rows * columns * count(product.depth) < LEAST_PRODUCTS:
        return False
    return all(x.is_packed for x in packings(product, a, b))


def missing_rows(product: Product) -> int:
    """Elements behind the left operand that are read, where its lines of rows are a little shorter than a tile."""
    row = inner(product.rows)
    return greatest(0, ROWS - row.size) * row.a


def packings(product: Product, a: Array, b: Array) -> tuple[TilePacking, TilePacking]:
    """How tiles are made of the left operand and of the right one."""
    return (
        TilePacking(a, "a", product.rows, product.depth, by_rows=True),
        TilePacking(b, "b", product.columns, product.depth, by_rows=False),
    )


def tiled(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b: Array, c: Array) -> None:
    """Adds the phases that pack operands, and one that multiplies."""
    left, right = packings(product, a, b)
    if left.pairs > _BLOCK and right.pairs >= _COPIED_FOR and max(len(product.rows), len(product.depth)) == 1:
        left = replace(left, is_copied=True)
    rows = left.source if left.is_in_place else packed(kernel, arithmetic, product, left)
    columns, most, block = None, _STEPS, _BLOCK
    if left.pairs > _BLOCK or not right.has_rows_along_depth:
        columns, most = packed(kernel, arithmetic, product, right), _PACKED_STEPS
        block = least(_BLOCK, greatest(_LEAST_BLOCK, _BLOCK_TILES // left.steps))
    blocks, batch = -(-left.pairs // block), count(product.batch)
    group = greatest(1, least(_PACKED_GROUP if columns else _GROUP, right.pairs * blocks * batch // _ITEMS))
    groups = -(-right.pairs // group)
    cost = 2 * least(count(product.rows), block * SIDE) * group * SIDE * count(product.depth) // FASTER
    sums = None
    if left.steps > most:
        sums = new_array(kernel, arithmetic.dtype, batch * left.pairs * right.pairs * SIDE * SIDE)
    with kernel.phase(batch * blocks * groups, grain(cost, arithmetic)) as phase:
        division = _Division(most, block, blocks, group, groups)
        _Multiplication(phase, arithmetic, product, (left, right), (rows, columns, sums, c)).emit(division)


def packed(kernel: Kernel, arithmetic: Arithmetic, product: Product, packing: TilePacking) -> Array:
    """An operand as [batch][pair of tiles][step of the depth][tile][line][packed element].

    Read in long runs: along the depth pair by pair, or pairs side by side step by step.
    """
    pairs, steps, batch = packing.pairs, packing.steps, count(product.batch)
    packed = new_array(kernel, s32, batch * pairs * steps * PAIR_BYTES // 4)
    is_along, cost = packing.has_rows_along_depth, SIDE * packing.step // FASTER
    items, run = (pairs, steps) if is_along else (steps, pairs)
    with kernel.phase(batch * items, grain(cost * run, arithmetic)) as phase:
        b = phase.b
        source, target = packing.source.pointer(phase), packed.pointer(phase)
        with rolled(b, phase.begin, phase.end, name="item") as item:
            number, at = digits(b, [Axis(batch, 0, 0, 0), Axis(items, 0, 0, 0)], item)
            base = linear_offset(b, product.batch, number, packing.operand)
            first = b.mul(number, i64(pairs))
            with rolled(b, 0, run, name="run") as k:
                pair, step = (at, k) if is_along else (k, at)
                here = b.add(b.mul(b.add(first, pair), i64(steps)), step)
                packing.put(b, source, base, pair, step, moved(b, target, here, PAIR_BYTES))
    return packed


class _Division(NamedTuple):
    """How many steps of the depth are multiplied at once, pairs of rows are a block, and pairs of columns a group."""

    steps: int
    block: int
    blocks: int
    group: int
    groups: int


class _Part(NamedTuple):
    """A part of the depth: its first step, how many it has, and whether it is the last."""

    begin: ir.Value
    steps: ir.Value
    is_last: ir.Value


class _Multiplication:
    """The phase that multiplies, whose items are blocks of rows by groups of columns."""

    def __init__(
        self,
        phase: PhaseBuilder,
        arithmetic: Arithmetic,
        product: Product,
        packings: tuple[TilePacking, TilePacking],
        arrays: tuple[Array, Array | None, Array | None, Array],
    ):
        self._phase, self._arithmetic, self._product = phase, arithmetic, product
        self._left, self._right = left, right = packings
        rows, columns, sums, self._c = arrays
        b = self._b = phase.b
        self._rows, self._source, self._target = (x.pointer(phase) for x in (rows, right.source, self._c))
        self._columns = columns.pointer(phase) if columns else None
        self._local = None if columns else stack_memory(b, _GROUP * _STEPS * PAIR_BYTES)
        self._is_split = sums is not None
        self._tail = stack_memory(b, _BLOCK * PAIR_BYTES) if left.has_tail else None
        self._is_direct = self._c.dtype is arithmetic.dtype and left.line >= ROWS and _has_whole_lines(product)
        self._sums = stack_memory(b, SUM_BYTES) if sums is None else sums.pointer(phase)
        self._tiles = TileRegisters(b, left.source.dtype, right.source.dtype)
        self._distances = allocate(b, I64, _STEPS if columns is None else _PACKED_STEPS)
        self._distances.type = POINTER

    def emit(self, division: _Division) -> None:
        """The loops over all."""
        b, product, steps = self._b, self._product, self._left.steps
        most, size, blocks, group, groups = division
        self._tiles.begin()
        with rolled(b, self._phase.begin, self._phase.end, name="item") as item:
            axes = [Axis(n, 0, 0, 0) for n in (count(product.batch), blocks, groups)]
            number, block, at = digits(b, axes, item)
            bases = [linear_offset(b, product.batch, number, x) for x in "abc"]
            top, side = b.mul(block, i64(size)), b.mul(at, i64(group))
            bottom = at_most(b, b.add(top, i64(size)), self._left.pairs)
            last = at_most(b, b.add(side, i64(group)), self._right.pairs)
            first_row, first_column = (b.mul(number, i64(x.pairs)) for x in (self._left, self._right))
            with rolled(b, 0, steps, most, name="depth") as begin:
                some = at_most(b, b.sub(i64(steps), begin), most)
                is_last = b.icmp_signed("==", b.add(begin, some), i64(steps)) if self._is_split else I1(1)
                self._measure(begin, some)
                if self._tail is not None:
                    with b.if_then(is_last):
                        self._pack_tail(self._tail, bases[0], (top, bottom))
                if self._local is not None:
                    self._pack(self._local, bases[1], (side, last), (begin, some))
                with rolled(b, side, last, name="columns") as column, rolled(b, top, bottom, name="rows") as row:
                    lefts = self._places(bases[0], b.add(first_row, row), row)
                    if self._columns is not None:
                        line = b.add(b.mul(b.add(first_column, column), i64(steps)), begin)
                        right = moved(b, self._columns, line, PAIR_BYTES)
                    else:
                        right = moved(b, self._local, b.sub(column, side), _STEPS * PAIR_BYTES)
                    sums = self._sums
                    if self._is_split:
                        slot = b.add(b.mul(b.add(first_column, column), i64(self._left.pairs)), row)
                        sums = moved(b, sums, slot, SUM_BYTES)
                    part = _Part(begin, some, is_last)
                    tail = None if self._tail is None else moved(b, self._tail, b.sub(row, top), PAIR_BYTES)
                    self._multiply(sums, lefts, right, part, tail)
                    self._store(sums, bases[2], row, column, is_last)
        self._tiles.end()

    def _measure(self, begin: ir.Value, some: ir.Value) -> None:
        """Keeps how far the steps of a part of the depth lie from the first of all."""
        b, left = self._b, self._left
        with rolled(b, 0, some, name="k") as k:
            step = b.add(begin, k)
            distance = left.distance(b, step) if left.is_in_place else b.mul(step, i64(PAIR_BYTES))
            b.store(distance, b.gep(self._distances, [k], inbounds=True, source_etype=I64))

    def _places(self, base: ir.Value, pair: ir.Value, row: ir.Value) -> list[ir.Value]:
        """Where the tiles of a pair of rows begin, which is number `pair` of those of all batches."""
        b, left = self._b, self._left
        if left.is_in_place:
            tiles = (b.add(b.mul(row, i64(2)), i64(n)) for n in (0, 1))
            return [left.place(b, self._rows, base, tile) for tile in tiles]
        first = moved(b, self._rows, b.mul(pair, i64(left.steps)), PAIR_BYTES)
        return [moved(b, first, i64(n), TILE_BYTES) for n in (0, 1)]

    def _pack(
        self,
        local: ir.Value,
        base: ir.Value,
        columns: tuple[ir.Value, ir.Value],
        steps: tuple[ir.Value, ir.Value],
    ) -> None:
        """Packs a part of the depth of a group of columns as [pair][step][tile][packed element][column]."""
        b, (side, last), (begin, some) = self._b, columns, steps
        with rolled(b, 0, b.sub(last, side), name="pair") as pair, rolled(b, 0, some, name="step") as step:
            here = moved(b, local, b.add(b.mul(pair, i64(_STEPS)), step), PAIR_BYTES)
            self._right.put(b, self._source, base, b.add(side, pair), b.add(begin, step), here)

    def _pack_tail(self, tail: ir.Value, base: ir.Value, rows: tuple[ir.Value, ir.Value]) -> None:
        """Copies the last step of the depth of a block of rows, where it is shorter, with zeros behind it."""
        b, (top, bottom) = self._b, rows
        with rolled(b, top, bottom, name="tail") as pair:
            here = moved(b, tail, b.sub(pair, top), PAIR_BYTES)
            self._left.put(b, self._rows, base, pair, i64(self._left.steps - 1), here)

    def _multiply(
        self, sums: ir.Value, lefts: list[ir.Value], right: ir.Value, part: _Part, tail: ir.Value | None
    ) -> None:
        """Adds a part of the depth to the tiles of sums, which begin as zeros or with those in memory."""
        b, tiles, left = self._b, self._tiles, self._left
        if self._is_split:
            with b.if_else(b.icmp_signed("==", part.begin, i64(0))) as (is_first, is_later):
                with is_first:
                    for tile in range(4):
                        tiles.clear(tile)
                with is_later:
                    for tile, place in enumerate(self._quarters(sums)):
                        tiles.load(tile, place, i64(2 * ROW_BYTES))
        else:
            for tile in range(4):
                tiles.clear(tile)
        stride = i64(inner(left.rows).a * left.source.dtype.bytes if left.is_in_place else ROW_BYTES)
        whole = part.steps if tail is None else b.sub(part.steps, b.zext(part.is_last, I64))
        with rolled(b, 0, whole, name="k") as k:
            distance = b.load(b.gep(self._distances, [k], inbounds=True, source_etype=I64), typ=I64)
            here = [moved(b, pointer, distance, 1) for pointer in lefts]
            self._add(here, stride, moved(b, right, k, PAIR_BYTES))
        if tail is not None:
            with b.if_then(part.is_last):
                here = [moved(b, tail, i64(n), TILE_BYTES) for n in (0, 1)]
                self._add(here, i64(ROW_BYTES), moved(b, right, whole, PAIR_BYTES))

    def _add(self, lefts: list[ir.Value], stride: ir.Value, right: ir.Value) -> None:
        """Adds one step of the depth."""
        b, tiles = self._b, self._tiles
        rights = [moved(b, right, i64(n), TILE_BYTES) for n in (0, 1)]
        tiles.load(4, lefts[0], stride)
        tiles.load(6, rights[0], i64(ROW_BYTES))
        tiles.multiply_add(0, 4, 6)
        tiles.load(7, rights[1], i64(ROW_BYTES))
        tiles.multiply_add(1, 4, 7)
        tiles.load(5, lefts[1], stride)
        tiles.multiply_add(2, 5, 6)
        tiles.multiply_add(3, 5, 7)

    def _quarters(self, sums: ir.Value) -> list[ir.Value]:
        """Where tiles of sums lie in memory of [row][column]."""
        b = self._b
        places = [row * 2 * TILE_BYTES + column * ROW_BYTES for row in (0, 1) for column in (0, 1)]
        return [b.gep(sums, [i64(at)], inbounds=True, source_etype=I8) for at in places]

    def _store(self, sums: ir.Value, target: ir.Value, row: ir.Value, column: ir.Value, is_last: ir.Value) -> None:
        """Stores tiles of sums: where they wait for the next part of the depth, or in the result."""
        b, tiles = self._b, self._tiles
        if not self._is_direct:
            for tile, place in enumerate(self._quarters(sums)):
                tiles.store(tile, place, i64(2 * ROW_BYTES))
            with b.if_then(is_last) if self._is_split else nullcontext():
                self._write(sums, target, row, column)
            return
        stride = i64(inner(self._product.rows).c * self._c.dtype.bytes)
        results = self._results(target, row, column)
        if self._is_split:
            results = [b.select(is_last, *both) for both in zip(results, self._quarters(sums), strict=True)]
            stride = b.select(is_last, stride, i64(2 * ROW_BYTES))
        for tile, place in enumerate(results):
            tiles.store(tile, place, stride)

    def _results(self, target: ir.Value, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        """Where tiles of sums lie in the result, whose elements are sums."""
        b, line = self._b, inner(self._product.rows).c
        rows, columns = self._left.first_rows(b, row), self._right.first_rows(b, column)
        starts = [b.add(target, b.mul(first, i64(line))) for first in rows]
        return [element_pointer(b, self._target, self._c.dtype, b.add(s, left)) for s in starts for left in columns]

    def _write(self, sums: ir.Value, target: ir.Value, row: ir.Value, column: ir.Value) -> None:
        """Stores sums in the result."""
        b, arithmetic, c = self._b, self._arithmetic, self._c
        line = inner(self._product.rows).c
        lefts = self._right.first_rows(b, column)
        with rolled(b, 0, 2, name="tile") as tile:
            first = self._left.first_row(b, b.add(b.mul(row, i64(2)), tile))
            start = b.add(target, b.mul(first, i64(line)))
            with rolled(b, 0, least(ROWS, self._left.line), name="row") as r:
                at = b.mul(b.add(b.mul(tile, i64(ROWS)), r), i64(SIDE))
                to = b.add(start, b.mul(r, i64(line)))
                for n, left in enumerate(lefts):
                    value = arithmetic.load(b, sums, arithmetic.dtype, b.add(at, i64(n * ROWS)), ROWS)
                    store_sums(b, arithmetic, self._target, c.dtype, b.add(to, left), value)


def store_sums(
    b: ir.IRBuilder, arithmetic: Arithmetic, target: ir.Value, dtype: DType, at: ir.Value, value: Parts
) -> None:
    """Stores a line of sums of tiles, none of which is subnormal, in the result."""
    if dtype is bf16 and arithmetic.target.has_narrowing:
        b.store(narrowed_normal(b, value[0]), element_pointer(b, target, bf16, at), align=bf16.bytes)
    else:
        arithmetic.store(b, target, dtype, at, value)


def _has_whole_lines(product: Product) -> bool:
    """True where rows of tiles of sums are lines of the cache in the result: tiles are stored across lines slowly."""
    return divides(ROWS, count(product.columns)) and divides(ROWS, inner(product.rows).c)
