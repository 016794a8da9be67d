"""Large products of bf16 or bytes by AMX: tiles of sums stay in registers, those of the operands come from caches.

The left operand is read where it lies if tiles lie there whole, and packed into tiles otherwise. The right one is
packed, unless it lies in tiles already: all of it at once, or, for few rows, the columns that a thread needs next. Sums
of a part of a long depth wait in memory for the next part; those of the last one become results, or go to an epilogue,
out of the first caches.
"""

from __future__ import annotations

from contextlib import nullcontext
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
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, linear_offset, merged_in
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.packed_pairs import narrowed_normal
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.cpu.loops.panel_function import call_lines
from xloom.hlo.dtype import DType, bf16, s32
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import greatest, least
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
"""Pairs of tiles of rows that an item has, at the most and at the least."""
_BLOCK_TILES = 256
"""Pairs of tiles in a block of rows: they have 512 KiB then."""
_GROUP, _PACKED_GROUP = 4, 32
"""Pairs of tiles of columns that meet a block of rows, where they are packed for it, or are already; at the most."""
_ITEMS = 8
"""Of a product, for threads to share, where it has as many tiles."""
_CACHED_STEPS = 8
"""Tiles of the depth that are multiplied, about, before the next tiles of sums of a large block: a pair of columns has
16 KiB then, which the first cache keeps for all rows of the block."""
_GIVEN, _WRITTEN = (4, 4), (1, 2)
"""Pairs of rows and of columns whose sums are in memory together, 64 KiB or 8, before results are made of them: lines
that an epilogue is given are better long, and what is only written comes from the first cache."""
_LOCAL_STEPS, _LOCAL_COLUMNS = 32, 16
"""Tiles of the depth, and pairs of tiles of columns, up to which rows that must be packed are so for a block at a time:
for more columns that would be done too often."""
_LEAST, LEAST_PRODUCTS = 16, 1 << 16
"""Rows and columns, and products: of fewer, most of the time goes into packing."""
FASTER, _PACKING = 8, 24
"""How many products of f32 take the time of one of AMX, about, and how many an element that is packed."""


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
    right = TilePacking(b, "b", product.columns, product.depth, by_rows=False)
    depth = merged_in(product.depth, "a") if right.lies_in_tiles else product.depth
    return TilePacking(a, "a", product.rows, depth, by_rows=True), right


def tiled(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b: Array, c: Array) -> None:
    """Adds the phases that pack operands, and one that multiplies."""
    left, right = packings(product, a, b)
    is_local = not left.is_in_place and left.has_rows_along_depth and right.pairs <= _LOCAL_COLUMNS
    is_local = is_local and left.steps <= _LOCAL_STEPS
    rows = left.source if left.is_in_place or is_local else packed(kernel, arithmetic, product, left)
    columns, most, block = None, _STEPS, _BLOCK
    if left.pairs > _BLOCK or not right.has_rows_along_depth:
        columns = right.source if right.lies_in_tiles else packed(kernel, arithmetic, product, right)
        most = _PACKED_STEPS
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
        _Multiplication(phase, arithmetic, product, (left, right), (rows, columns, sums, c), is_local).emit(division)


def packed(kernel: Kernel, arithmetic: Arithmetic, product: Product, packing: TilePacking) -> Array:
    """An operand as [batch][pair of tiles][step of the depth][tile][line][packed element].

    Read in long runs: along the depth pair by pair, or pairs side by side step by step.
    """
    pairs, steps, batch = packing.pairs, packing.steps, count(product.batch)
    packed = new_array(kernel, s32, batch * pairs * steps * PAIR_BYTES // 4)
    is_along, cost = packing.has_rows_along_depth, SIDE * packing.step * _PACKING
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
    """A part of the depth: its first step, how many it has, and at once, and whether it is the last."""

    begin: ir.Value
    steps: ir.Value
    at_once: int
    is_last: ir.Value


class _Place(NamedTuple):
    """Where a block of rows and a group of columns lie: in the three arrays, among the packed pairs, in the product."""

    bases: list[ir.Value]
    firsts: tuple[ir.Value, ir.Value]
    begins: tuple[ir.Value, ir.Value]


_Range = tuple[ir.Value, ir.Value]
"""The first pair of some, and the first after them."""


class _Multiplication:
    """The phase that multiplies, whose items are blocks of rows by groups of columns."""

    def __init__(
        self,
        phase: PhaseBuilder,
        arithmetic: Arithmetic,
        product: Product,
        packings: tuple[TilePacking, TilePacking],
        arrays: tuple[Array, Array | None, Array | None, Array],
        is_local: bool,
    ):
        self._phase, self._arithmetic, self._product = phase, arithmetic, product
        self._left, self._right = left, right = packings
        rows, columns, sums, self._c = arrays
        b = self._b = phase.b
        self._rows, self._source, self._target = (x.pointer(phase) for x in (rows, right.source, self._c))
        self._columns = columns.pointer(phase) if columns else None
        self._local = None if columns else stack_memory(b, _GROUP * _STEPS * PAIR_BYTES)
        self._is_split = sums is not None
        self._pairs = _GIVEN if self._c.has_epilogue or is_local else _WRITTEN
        # what is a result as it is needs no memory of a block
        self._is_stored = not self._c.has_epilogue and self._c.dtype is arithmetic.dtype
        self._is_stored = self._is_stored and left.line >= ROWS and right.line >= ROWS
        # an odd number of lines from row to row, which share no place of the first cache
        self._apart = (2 * self._pairs[1] + 1) * ROW_BYTES
        self._local_rows = stack_memory(b, self._pairs[0] * _LOCAL_STEPS * PAIR_BYTES) if is_local else None
        self._tail = stack_memory(b, _BLOCK * PAIR_BYTES) if left.has_tail else None
        self._sums = stack_memory(b, self._pairs[0] * SIDE * self._apart)
        self._waiting = sums.pointer(phase) if sums else None
        self._tiles = TileRegisters(b, left.source.dtype, right.source.dtype)
        self._distances = allocate(b, I64, _STEPS if columns is None else _PACKED_STEPS)
        self._distances.type = POINTER

    def emit(self, division: _Division) -> None:
        """The loops over all."""
        b, product, steps = self._b, self._product, self._left.steps
        most, size, blocks, group, groups = division
        at_once = _at_once(least(steps, most)) if self._pairs == _GIVEN else most
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
                part = _Part(begin, some, at_once, is_last)
                place = _Place(bases, (first_row, first_column), (top, side))
                self._add_blocks(place, part, (bottom, last))
        self._tiles.end()

    def _add_blocks(self, place: _Place, part: _Part, ends: tuple[ir.Value, ir.Value]) -> None:
        """Adds a part of the depth block by block, whose sums become results after the last part."""
        b = self._b
        with (
            rolled(b, place.begins[1], ends[1], self._pairs[1], name="block.columns") as column,
            rolled(b, place.begins[0], ends[0], self._pairs[0], name="block.rows") as row,
        ):
            rows = row, intrinsic(b, "smin", b.add(row, i64(self._pairs[0])), ends[0])
            columns = column, intrinsic(b, "smin", b.add(column, i64(self._pairs[1])), ends[1])
            if self._local_rows is not None:
                self._pack_rows(self._local_rows, place.bases[0], rows, part)
            self._add_block(place, part, rows, columns)
            if not self._is_stored:
                with b.if_then(part.is_last) if self._is_split else nullcontext():
                    self._finish(place.bases[2], rows, columns)

    def _add_block(self, place: _Place, part: _Part, rows: _Range, columns: _Range) -> None:
        """Adds a part of the depth of some pairs of rows and columns, some steps after the other."""
        b, some = self._b, part.at_once
        with rolled(b, 0, part.steps, some, name="steps") as begin:
            end = intrinsic(b, "smin", b.add(begin, i64(some)), part.steps)
            with rolled(b, *columns, name="columns") as column, rolled(b, *rows, name="rows") as row:
                self._add_pair(place, part, (begin, end), (row, rows[0]), (column, columns[0]))

    def _add_pair(
        self, place: _Place, part: _Part, steps: _Range, row_of: tuple[ir.Value, ir.Value], column_of: _Range
    ) -> None:
        """Adds some steps of a part of the depth to the sums of a pair of rows and a pair of columns."""
        b, (row, first_row), (column, first_column) = self._b, row_of, column_of
        if self._local_rows is not None:
            step = b.sub(b.mul(b.sub(row, first_row), i64(_LOCAL_STEPS)), part.begin)
            lefts = self._pair(moved(b, self._local_rows, step, PAIR_BYTES))
        else:
            lefts = self._places(place.bases[0], b.add(place.firsts[0], row), row)
        packed_column = b.add(place.firsts[1], column)
        if self._columns is not None:
            line = b.add(b.mul(packed_column, i64(self._left.steps)), part.begin)
            right = moved(b, self._columns, line, PAIR_BYTES)
        else:
            right = moved(b, self._local, b.sub(column, place.begins[1]), _STEPS * PAIR_BYTES)
        waiting = None
        if self._waiting is not None:
            slot = b.add(b.mul(packed_column, i64(self._left.pairs)), row)
            waiting = self._quarters(moved(b, self._waiting, slot, SUM_BYTES), 2 * ROW_BYTES)
        tail = None if self._tail is None else moved(b, self._tail, b.sub(row, place.begins[0]), PAIR_BYTES)
        here = moved(b, self._sums, b.sub(row, first_row), SIDE * self._apart)
        # columns of the last tiles are those of tiles before them again: each has its own until the last step
        unfinished = self._quarters(moved(b, here, b.sub(column, first_column), 2 * ROW_BYTES), self._apart)
        self._begin_sums(part, steps[0], waiting, unfinished)
        self._multiply(lefts, right, part, steps, tail)
        if self._is_stored:
            finished = self._results(place.bases[2], row, column)
        else:
            finished = self._summed(b.sub(row, first_row), column, first_column)
        is_whole = b.icmp_signed("==", steps[1], part.steps)
        self._store(part.is_last, is_whole, waiting, unfinished, finished)

    def _summed(self, row: ir.Value, column: ir.Value, first_column: ir.Value) -> list[ir.Value]:
        """Where tiles of sums lie in memory of a block, of a pair of its rows and of a pair of columns."""
        b, right = self._b, self._right
        begin = right.first_row(b, b.mul(first_column, i64(2)))
        size = self._arithmetic.dtype.bytes
        lefts = [b.mul(b.sub(left, begin), i64(size)) for left in right.first_rows(b, column)]
        starts = [moved(b, self._sums, b.add(b.mul(row, i64(2)), i64(n)), ROWS * self._apart) for n in (0, 1)]
        return [moved(b, start, left, 1) for start in starts for left in lefts]

    def _results(self, base: ir.Value, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        """Where tiles of sums lie in the result, of a pair of rows and a pair of columns."""
        b, step = self._b, i64(inner(self._product.rows).c)
        rows = [b.add(base, b.mul(first, step)) for first in self._left.first_rows(b, row)]
        columns = self._right.first_rows(b, column)
        return [element_pointer(b, self._target, self._c.dtype, b.add(r, c)) for r in rows for c in columns]

    def _finish(self, target: ir.Value, rows: _Range, columns: _Range) -> None:
        """Makes results of a block's sums, a tile of rows after the other."""
        b, left, right = self._b, self._left, self._right
        step = i64(inner(self._product.rows).c)
        first_column = right.first_row(b, b.mul(columns[0], i64(2)))
        end = right.first_row(b, b.sub(b.mul(columns[1], i64(2)), i64(1)))
        length = b.add(b.sub(end, first_column), i64(ROWS))
        first_tile, lines = b.mul(rows[0], i64(2)), i64(least(ROWS, left.line))
        with rolled(b, first_tile, at_most(b, b.mul(rows[1], i64(2)), left.tiles), name="tile") as tile:
            sums = moved(b, self._sums, b.sub(tile, first_tile), ROWS * self._apart)
            first = b.add(b.add(target, first_column), b.mul(left.first_row(b, tile), step))
            if self._c.has_epilogue:
                apart = i64(self._apart // self._arithmetic.dtype.bytes)
                call_lines(b, self._target, [sums, apart, first, step, lines, length])
            else:
                self._write(sums, first, step, lines, length)

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
        return self._pair(moved(b, self._rows, b.mul(pair, i64(left.steps)), PAIR_BYTES))

    def _pair(self, first: ir.Value) -> list[ir.Value]:
        """Two tiles side by side."""
        return [moved(self._b, first, i64(n), TILE_BYTES) for n in (0, 1)]

    def _pack_rows(self, local: ir.Value, base: ir.Value, rows: _Range, part: _Part) -> None:
        """Packs a part of the depth of some pairs of rows, as they are needed next."""
        b = self._b
        with rolled(b, *rows, name="pair") as pair, rolled(b, 0, part.steps, name="step") as step:
            at = b.add(b.mul(b.sub(pair, rows[0]), i64(_LOCAL_STEPS)), step)
            self._left.put(b, self._rows, base, pair, b.add(part.begin, step), moved(b, local, at, PAIR_BYTES))

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

    def _begin_sums(
        self, part: _Part, begin: ir.Value, waiting: list[ir.Value] | None, unfinished: list[ir.Value]
    ) -> None:
        """Tiles of sums begin as zeros, or with those that wait in memory, or with those of the steps before."""
        b, tiles = self._b, self._tiles
        with b.if_else(b.icmp_signed("==", begin, i64(0))) as (is_first, is_later):
            with is_first:
                if waiting is None:
                    self._clear()
                else:
                    with b.if_else(b.icmp_signed("==", part.begin, i64(0))) as (is_first_part, is_later_part):
                        with is_first_part:
                            self._clear()
                        with is_later_part:
                            for tile, place in enumerate(waiting):
                                tiles.load(tile, place, i64(2 * ROW_BYTES))
            with is_later:
                for tile, place in enumerate(unfinished):
                    tiles.load(tile, place, i64(self._apart))

    def _clear(self) -> None:
        for tile in range(4):
            self._tiles.clear(tile)

    def _multiply(
        self, lefts: list[ir.Value], right: ir.Value, part: _Part, steps: _Range, tail: ir.Value | None
    ) -> None:
        """Adds some steps of a part of the depth to the tiles of sums."""
        b, left, (begin, end) = self._b, self._left, steps
        stride = i64(inner(left.rows).a * left.source.dtype.bytes if left.is_in_place else ROW_BYTES)
        has_tail = None
        if tail is not None:
            has_tail = b.and_(part.is_last, b.icmp_signed("==", end, part.steps))
            end = b.sub(end, b.zext(has_tail, I64))
        with rolled(b, begin, end, name="k") as k:
            distance = b.load(b.gep(self._distances, [k], inbounds=True, source_etype=I64), typ=I64)
            here = [moved(b, pointer, distance, 1) for pointer in lefts]
            self._add(here, stride, moved(b, right, k, PAIR_BYTES))
        if tail is not None:
            with b.if_then(has_tail):
                here = [moved(b, tail, i64(n), TILE_BYTES) for n in (0, 1)]
                self._add(here, i64(ROW_BYTES), moved(b, right, end, PAIR_BYTES))

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

    def _quarters(self, sums: ir.Value, apart: int) -> list[ir.Value]:
        """Where tiles of sums lie in memory whose lines are so many bytes apart."""
        b = self._b
        places = [row * ROWS * apart + column * ROW_BYTES for row in (0, 1) for column in (0, 1)]
        return [b.gep(sums, [i64(at)], inbounds=True, source_etype=I8) for at in places]

    def _store(
        self,
        is_last: ir.Value,
        is_whole: ir.Value,
        waiting: list[ir.Value] | None,
        unfinished: list[ir.Value],
        finished: list[ir.Value],
    ) -> None:
        """Stores tiles of sums in memory of the block, or where they wait for the next part of the depth."""
        b, apart, places = self._b, i64(self._apart), finished
        stride = b.mul(i64(inner(self._product.rows).c), i64(self._c.dtype.bytes)) if self._is_stored else apart
        if waiting is not None:
            places = [b.select(is_last, *both) for both in zip(finished, waiting, strict=True)]
            stride = b.select(is_last, stride, i64(2 * ROW_BYTES))
        stride = b.select(is_whole, stride, apart)
        for tile, both in enumerate(zip(places, unfinished, strict=True)):
            self._tiles.store(tile, b.select(is_whole, *both), stride)

    def _write(self, sums: ir.Value, first: ir.Value, step: ir.Value, lines: ir.Value, length: ir.Value) -> None:
        """Stores lines of sums in the result, from element `first` on; the last vector of each ends with it."""
        b, arithmetic, c = self._b, self._arithmetic, self._c
        with rolled(b, 0, lines, name="row") as row:
            line, to = moved(b, sums, row, self._apart), b.add(first, b.mul(row, step))
            with rolled(b, 0, length, ROWS, name="column") as column:
                at = intrinsic(b, "smin", column, b.sub(length, i64(ROWS)))
                value = arithmetic.load(b, line, arithmetic.dtype, at, ROWS)
                store_sums(b, arithmetic, self._target, c.dtype, b.add(to, at), value)


def _at_once(steps: int) -> int:
    """How many steps are multiplied before the next tiles of sums, of so many in all."""
    return -(-steps // greatest(1, (steps + _CACHED_STEPS // 2) // _CACHED_STEPS))


def store_sums(
    b: ir.IRBuilder, arithmetic: Arithmetic, target: ir.Value, dtype: DType, at: ir.Value, value: Parts
) -> None:
    """Stores a line of sums of tiles, none of which is subnormal, in the result."""
    if dtype is bf16 and arithmetic.target.has_narrowing:
        b.store(narrowed_normal(b, value[0]), element_pointer(b, target, bf16, at), align=bf16.bytes)
    else:
        arithmetic.store(b, target, dtype, at, value)
