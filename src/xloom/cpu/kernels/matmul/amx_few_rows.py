"""A few rows by AMX, at the speed at which memory gives the matrix that they meet.

A matrix that lies along the depth is read where it is, in the left operand's place: the product comes out transposed.
Of one whose columns lie side by side, wide pieces of a few of its rows are packed. Either may be made line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from llvmlite import ir

from xloom.codegen.thresholds import FEW_ROWS
from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.amx_packing import TilePacking
from xloom.cpu.kernels.matmul.amx_product import (
    FASTER,
    LEAST_PRODUCTS,
    PAIR_BYTES,
    SIDE,
    SUM_BYTES,
    packed,
    packings,
    store_sums,
)
from xloom.cpu.kernels.matmul.amx_tiles import (
    ROW_BYTES,
    ROWS,
    TILE_BYTES,
    TileRegisters,
    has_tile_product,
    moved,
    stack_memory,
)
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, linear_offset
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.packing import transposed
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.llvm.cache_lines import fetch
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import I8, i64

_LEAST_ROWS, _LEAST_TURNED_ROWS = {2: 9, 1: 3}, {2: 5, 1: 3}
"""By an element's bytes: a matrix meets fewer rows as fast as memory gives it, without tiles."""
_STEPS, _GROUP = 4, 32
"""Tiles of the depth, and pairs of tiles of columns, that are packed at once: runs of 2 KiB of bf16."""
_APART = (2 * _GROUP + 1) * ROW_BYTES
"""Bytes from line to line of these: an odd number of lines of memory, which share no place of the first cache."""
_MADE_STEPS = 16
"""Tiles of the depth that are made at once of a matrix that lies along it."""
_ITEMS = 8
"""Of a product, for threads to share, where it has as many pairs of tiles."""
_AHEAD = 4
"""Steps of the depth, of 64 bytes of each row, before which a matrix that is read in place is fetched."""


def has_few_rows(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> bool:
    """True when AMX has the products, and few rows meet a matrix that `few_rows` reads as it lies."""
    if not arithmetic.target.has_tiles or not has_tile_product(a.dtype, b.dtype, arithmetic.dtype):
        return False
    rows, columns, depth = count(product.rows), count(product.columns), count(product.depth)
    if rows > FEW_ROWS or columns < ROWS or rows * columns * depth < LEAST_PRODUCTS:
        return False
    if is_better_turned(product, a, b):
        return rows >= _LEAST_TURNED_ROWS[b.dtype.bytes]
    left, right = packings(product, a, b)
    if right.lies_in_tiles:  # which are loaded as they are
        return False
    is_read = left.is_packed and right.is_packed and not right.has_rows_along_depth
    return is_read and rows >= _LEAST_ROWS[b.dtype.bytes]


def is_better_turned(product: Product, a: Array, b: Array) -> bool:
    """True when the right operand can be read where it lies in the left one's place."""
    left, right = packings(product.transposed, b, a)
    if len(left.depth) != 1 or inner(left.rows).size < ROWS or not right.is_packed:
        return False
    return left.is_in_place and inner(left.depth).size % left.step == 0


def _is_turned(product: Product) -> bool:
    """True when it is the rows of the result that lie side by side."""
    return inner(product.columns).c != 1


def takes_lines(product: Product, operand: str) -> bool:
    """True when the matrix is this operand, and can be made as it is multiplied: along its rows in memory."""
    is_turned = _is_turned(product)
    rows = product.rows if is_turned else product.columns
    return operand == ("a" if is_turned else "b") and len(product.depth) == len(rows) == 1


def few_rows(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b: Array, c: Array) -> None:
    """Adds the phases that pack the rows, and one that multiplies."""
    left, right = packings(product, a, b)
    batch, depth = count(product.batch), count(product.depth)
    if _is_turned(product):
        rows = packed(kernel, arithmetic, product, right)
        cost = 2 * SIDE * count(product.columns) * depth // FASTER
        with kernel.phase(batch * left.pairs, grain(cost, arithmetic)) as phase:
            _InPlace(phase, arithmetic, product, (left, right), rows, c).emit()
        return
    left = replace(left, is_copied=True)
    rows = packed(kernel, arithmetic, product, left)
    group = greatest(1, least(_GROUP, right.pairs * batch // _ITEMS))
    groups = -(-right.pairs // group)
    sums = new_array(kernel, arithmetic.dtype, batch * left.pairs * right.pairs * SIDE * SIDE)
    cost = 2 * count(product.rows) * group * SIDE * depth // FASTER
    with kernel.phase(batch * groups, grain(cost, arithmetic)) as phase:
        _InPieces(phase, arithmetic, product, (left, right), rows, c).emit(sums, groups, group)


class _FewRows:
    """The phase that multiplies."""

    def __init__(
        self,
        phase: PhaseBuilder,
        arithmetic: Arithmetic,
        product: Product,
        packings: tuple[TilePacking, TilePacking],
        rows: Array,
        c: Array,
    ):
        self._phase, self._arithmetic, self._product, self._c = phase, arithmetic, product, c
        self._left, self._right = left, right = packings
        self._b = phase.b
        self._rows, self._target = rows.pointer(phase), c.pointer(phase)
        self._sides = [1 if x.tiles == 1 else 2 for x in packings]
        self._tiles = TileRegisters(self._b, left.source.dtype, right.source.dtype)

    def _places(self, sums: ir.Value) -> dict[int, ir.Value]:
        """Where tiles of sums, by the number of their register, lie in memory of [row][column]."""
        rows, columns = self._sides
        return {
            2 * r + c: self._b.gep(sums, [i64(r * 2 * TILE_BYTES + c * ROW_BYTES)], inbounds=True, source_etype=I8)
            for r in range(rows)
            for c in range(columns)
        }

    def _store(self, sums: ir.Value) -> None:
        for tile, place in self._places(sums).items():
            self._tiles.store(tile, place, i64(2 * ROW_BYTES))

    def _add(self, lefts: list[ir.Value], stride: ir.Value, right: ir.Value, beside: int, apart: int) -> None:
        """Adds a step of the depth; right tiles lie `beside` bytes from each other, their lines `apart`."""
        b, tiles = self._b, self._tiles
        rows, columns = self._sides
        for row in range(rows):
            tiles.load(4 + row, lefts[row], stride)
            for column in range(columns):
                if row == 0:
                    tiles.load(6 + column, moved(b, right, i64(column), beside), i64(apart))
                tiles.multiply_add(2 * row + column, 4 + row, 6 + column)

    def _lines(self, sums: ir.Value, spread: int, start: ir.Value, apart: int, most: int) -> None:
        """Stores lines of a tile of sums, which lie `spread` elements apart, as lines of the result from `start` on."""
        b, arithmetic = self._b, self._arithmetic
        with rolled(b, 0, least(ROWS, most), name="line") as k:
            value = arithmetic.load(b, sums, arithmetic.dtype, b.mul(k, i64(spread)), ROWS)
            store_sums(b, arithmetic, self._target, self._c.dtype, b.add(start, b.mul(k, i64(apart))), value)


class _InPlace(_FewRows):
    """Items are pairs of tiles of the matrix, which is the left operand; the packed rows are the right one."""

    def emit(self) -> None:
        """The loops over all."""
        b, product, left, right = self._b, self._product, self._left, self._right
        sums, turned = stack_memory(b, SUM_BYTES), stack_memory(b, TILE_BYTES)
        matrix = left.source.pointer(self._phase)
        buffer = None
        if left.source.is_made:
            buffer = LineBuffer(b, left.source, SIDE, (_MADE_STEPS + 1) * left.step)
        self._tiles.begin()
        with rolled(b, self._phase.begin, self._phase.end, name="item") as item:
            number, pair = digits(b, [Axis(count(product.batch), 0, 0, 0), Axis(left.pairs, 0, 0, 0)], item)
            bases = [linear_offset(b, product.batch, number, x) for x in "abc"]
            firsts = left.first_rows(b, pair)
            lefts = [b.add(bases[0], linear_offset(b, left.rows, first, left.operand)) for first in firsts]
            with rolled(b, 0, right.pairs, name="columns") as column:
                slot = b.mul(b.add(b.mul(number, i64(right.pairs)), column), i64(right.steps))
                for tile in self._places(sums):
                    self._tiles.clear(tile)
                with self._steps(matrix, buffer, lefts) as (k, here, stride):
                    there = moved(b, self._rows, b.add(slot, k), PAIR_BYTES)
                    self._add(here, stride, there, TILE_BYTES, ROW_BYTES)
                self._store(sums)
                self._write(sums, turned, bases[2], firsts, column)
        self._tiles.end()

    @contextmanager
    def _steps(
        self, matrix: ir.Value, buffer: LineBuffer | None, firsts: list[ir.Value]
    ) -> Iterator[tuple[ir.Value, list[ir.Value], ir.Value]]:
        """The loop over steps of the depth: the step, where its left tiles are, and how many bytes apart their rows.

        Tiles that are not in memory are made, some steps at a time.
        """
        b, left = self._b, self._left
        size, row = left.source.dtype.bytes, inner(left.rows).a
        if buffer is None:
            starts = [moved(b, matrix, first, size) for first in firsts]
            with rolled(b, 0, left.steps, name="k") as k:
                yield k, [moved(b, start, k, ROW_BYTES) for start in starts], i64(row * size)
                ahead = moved(b, starts[0], b.add(k, i64(_AHEAD)), ROW_BYTES)
                for line in range(SIDE):
                    fetch(b, b.gep(ahead, [i64(line * row * size)], source_etype=I8))
            return
        apart = i64(buffer.apart * size)
        with rolled(b, 0, left.steps, _MADE_STEPS, name="part") as part:
            some = at_most(b, b.sub(i64(left.steps), part), _MADE_STEPS)
            elements, length = b.mul(part, i64(left.step)), b.mul(some, i64(left.step))
            for n, first in enumerate(firsts):
                buffer.fill(b, matrix, b.add(first, elements), length, i64(ROWS), i64(row), number=n * ROWS)
            with rolled(b, 0, some, name="k") as k:
                places = [b.add(b.mul(apart, i64(n * ROWS)), b.mul(k, i64(ROW_BYTES))) for n in range(len(firsts))]
                yield b.add(part, k), [moved(b, buffer.pointer, at, 1) for at in places], apart

    def _write(
        self, sums: ir.Value, turned: ir.Value, target: ir.Value, firsts: list[ir.Value], column: ir.Value
    ) -> None:
        """Stores sums in the result, tile by tile transposed."""
        b, arithmetic, right = self._b, self._arithmetic, self._right
        apart = inner(right.rows).c
        for row in range(self._sides[0]):
            for n, at in enumerate(right.first_rows(b, column)[: self._sides[1]]):
                here = b.gep(sums, [i64(row * 2 * TILE_BYTES + n * ROW_BYTES)], inbounds=True, source_etype=I8)
                lines = [arithmetic.load(b, here, arithmetic.dtype, i64(r * SIDE), ROWS)[0] for r in range(ROWS)]
                for r, line in enumerate(transposed(b, lines)):
                    arithmetic.store(b, turned, arithmetic.dtype, i64(r * ROWS), [line])
                start = b.add(b.add(target, firsts[row]), b.mul(at, i64(apart)))
                self._lines(turned, ROWS, start, apart, right.line)


class _InPieces(_FewRows):
    """Items are groups of columns of the matrix, which is the right operand; its pieces are packed side by side."""

    def emit(self, sums: Array, groups: int, group: int) -> None:
        """The loops over all."""
        b, product, left, right = self._b, self._product, self._left, self._right
        local, waiting = stack_memory(b, _STEPS * ROWS * _APART), sums.pointer(self._phase)
        buffer = LineBuffer(b, right.source, right.step, _GROUP * SIDE) if right.source.is_made else None
        self._tiles.begin()
        with rolled(b, self._phase.begin, self._phase.end, name="item") as item:
            number, at = digits(b, [Axis(count(product.batch), 0, 0, 0), Axis(groups, 0, 0, 0)], item)
            base, target = (linear_offset(b, product.batch, number, x) for x in "bc")
            side = b.mul(at, i64(group))
            last = at_most(b, b.add(side, i64(group)), right.pairs)
            first_row, first_column = (b.mul(number, i64(x.pairs)) for x in (left, right))
            with rolled(b, 0, left.steps, _STEPS, name="depth") as begin:
                some = at_most(b, b.sub(i64(left.steps), begin), _STEPS)
                with rolled(b, 0, some, name="step") as k:
                    self._pack(moved(b, local, k, ROWS * _APART), buffer, base, (side, last), b.add(begin, k))
                is_last = b.icmp_signed("==", b.add(begin, some), i64(left.steps))
                with rolled(b, side, last, name="columns") as column, rolled(b, 0, left.pairs, name="rows") as row:
                    slot = b.add(b.mul(b.add(first_column, column), i64(left.pairs)), row)
                    place = moved(b, waiting, slot, SUM_BYTES)
                    there = moved(b, local, b.sub(column, side), 2 * ROW_BYTES)
                    start = b.mul(b.add(first_row, row), i64(left.steps))
                    self._multiply(place, moved(b, self._rows, start, PAIR_BYTES), there, begin, some)
                    with b.if_then(is_last):
                        self._write(place, target, row, column)
        self._tiles.end()

    def _pack(
        self,
        target: ir.Value,
        buffer: LineBuffer | None,
        base: ir.Value,
        columns: tuple[ir.Value, ir.Value],
        step: ir.Value,
    ) -> None:
        """Packs a step of the depth as [packed element][pair][tile][column], which is made before if it must."""
        b, right = self._b, self._right
        source = right.source.pointer(self._phase)
        if buffer is None:

            def place(at: ir.Value) -> ir.Value:
                return b.add(base, linear_offset(b, right.depth, at, right.operand))

            right.put_lines(b, source, place, columns, step, target, _APART, is_far=True)
            return
        first = right.first_row(b, b.mul(columns[0], i64(2)))
        length = b.sub(at_most(b, b.mul(columns[1], i64(SIDE)), count(right.rows)), first)
        depth, stride = b.mul(step, i64(right.step)), i64(inner(right.depth).stride(right.operand))
        lines = at_most(b, b.sub(i64(count(right.depth)), depth), right.step)
        buffer.fill(b, source, b.add(b.add(base, b.mul(depth, stride)), first), length, lines, stride)

        def made(at: ir.Value) -> ir.Value:
            return b.sub(b.mul(b.sub(at, depth), i64(buffer.apart)), first)

        right.put_lines(b, buffer.pointer, made, columns, step, target, _APART, is_far=False)

    def _multiply(
        self,
        place: ir.Value,
        left: ir.Value,
        right: ir.Value,
        begin: ir.Value,
        some: ir.Value,
    ) -> None:
        """Adds some steps of the depth to sums that wait in memory for the next ones."""
        b, tiles = self._b, self._tiles
        with b.if_else(b.icmp_signed("==", begin, i64(0))) as (is_first, is_later):
            with is_first:
                for tile in self._places(place):
                    tiles.clear(tile)
            with is_later:
                for tile, at in self._places(place).items():
                    tiles.load(tile, at, i64(2 * ROW_BYTES))
        with rolled(b, 0, some, name="k") as k:
            here = moved(b, left, b.add(begin, k), PAIR_BYTES)
            lefts = [moved(b, here, i64(n), TILE_BYTES) for n in (0, 1)]
            self._add(lefts, i64(ROW_BYTES), moved(b, right, k, ROWS * _APART), ROW_BYTES, _APART)
        self._store(place)

    def _write(self, sums: ir.Value, target: ir.Value, row: ir.Value, column: ir.Value) -> None:
        """Stores sums in the result."""
        b, left = self._b, self._left
        apart = inner(left.rows).c
        for r, first in enumerate(left.first_rows(b, row)[: self._sides[0]]):
            for n, at in enumerate(self._right.first_rows(b, column)[: self._sides[1]]):
                here = b.gep(sums, [i64(r * 2 * TILE_BYTES + n * ROW_BYTES)], inbounds=True, source_etype=I8)
                self._lines(here, SIDE, b.add(b.add(target, at), b.mul(first, i64(apart))), apart, left.line)
