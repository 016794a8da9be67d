"""Large products of bf16 or bytes by AMX: tiles of sums stay in registers, those of the operands come from caches.

The left operand is read where it lies if tiles lie there whole, and packed into tiles otherwise. The right one is
packed: all of it at once, or, for few rows, the columns that a thread needs next. A block's sums of a part of the depth
wait in the second cache for the next part.

A few rows are multiplied at the speed at which memory gives the other operand: a right one is packed in wide pieces of
a few of its rows, or is read where it lies in the left one's place, and so the product comes out transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.amx_packing import TilePacking
from xloom.cpu.kernels.matmul.amx_tiles import ROW_BYTES, ROWS, TILE_BYTES, TileRegisters, has_tile_product
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, linear_offset
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.packing import transposed
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.hlo.dtype import s32
from xloom.llvm.cache_lines import LINE, fetch
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import I8, I64, POINTER, i64

SIDE = 2 * ROWS
"""Rows and columns of what is summed at once: 2 x 2 tiles, of 2 tiles of each operand, which are all registers."""
PAIR_BYTES = 2 * TILE_BYTES
"""Of two tiles side by side, for one step of the depth."""
_SUM_BYTES = 4 * TILE_BYTES
_STEPS = 16
"""Tiles of the depth at once: columns of two tiles have 32 KiB then."""
_BLOCK = 16
"""Pairs of tiles of rows that columns meet at once: they have 512 KiB then."""
_GROUP, _PACKED_GROUP = 4, 8
"""Pairs of tiles of columns that meet a block of rows, where they are packed for it, or are already; at the most.
Sums of eight take 512 KiB."""
_FEW = 64
"""Rows that meet each element of the right operand so seldom that memory takes the time."""
_WIDE_STEPS, _WIDE_GROUP = 4, 32
"""Tiles of the depth, and pairs of tiles of columns, that are packed at once for a few rows: runs of 2 KiB of bf16."""
_APART = (2 * _WIDE_GROUP + 1) * ROW_BYTES
"""Bytes from line to line of these: an odd number of lines of memory, which share no place of the first cache."""
_ITEMS = 8
"""Of a product, for threads to share, where it has as many tiles."""
_LEAST_ROWS, _LEAST_TURNED_ROWS = {2: 9, 1: 3}, {2: 5, 1: 3}
"""By an element's bytes: a matrix meets fewer rows as fast as memory gives it, without tiles."""
_LEAST_PRODUCTS = 1 << 16
"""Of fewer, most of the time goes into packing."""
_AHEAD = 4
"""Steps of the depth, of 64 bytes of each row, before which weights that are read in place are fetched."""
_FASTER = 8
"""How many products of f32 take the time of one of AMX, about."""


def is_tiled(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> bool:
    """True when AMX has the products, there are enough of them, and operands lie so that tiles can be made of them."""
    if not arithmetic.target.has_tiles or not has_tile_product(a.dtype, b.dtype, arithmetic.dtype):
        return False
    rows, columns = count(product.rows), count(product.columns)
    least_rows = _LEAST_TURNED_ROWS if is_better_turned(product, a, b) else _LEAST_ROWS
    if rows < least_rows[b.dtype.bytes] or columns < ROWS or rows * columns * count(product.depth) < _LEAST_PRODUCTS:
        return False
    return all(x.is_packed for x in _packings(product, a, b))


def is_better_turned(product: Product, a: Array, b: Array) -> bool:
    """True when few rows meet a right operand that can be read where it lies, as the left operand is."""
    left, right = _packings(product.transposed, b, a)
    has_few = count(product.rows) <= _FEW and len(left.depth) == 1 and inner(left.rows).size >= ROWS
    return has_few and left.is_in_place and right.is_packed


def missing_rows(product: Product) -> int:
    """Elements behind the left operand that are read, where its lines of rows are a little shorter than a tile."""
    row = inner(product.rows)
    return greatest(0, ROWS - row.size) * row.a


def _packings(product: Product, a: Array, b: Array) -> tuple[TilePacking, TilePacking]:
    return (
        TilePacking(a, "a", product.rows, product.depth, by_rows=True),
        TilePacking(b, "b", product.columns, product.depth, by_rows=False),
    )


def _is_turned(product: Product) -> bool:
    """True when it is the rows of the result that lie side by side."""
    return inner(product.columns).c != 1


def takes_lines(product: Product, a: Array, b: Array, operand: str) -> bool:
    """True when an operand that meets few rows can be made as it is multiplied: along its rows in memory."""
    left, right = _packings(product, a, b)
    if len(product.depth) != 1:
        return False
    if _is_turned(product):
        return operand == "a" and len(left.rows) == 1
    is_wide = operand == "b" and count(product.rows) <= _FEW
    return is_wide and not right.has_rows_along_depth and len(right.rows) == 1


class _Blocking(NamedTuple):
    """What is done at once."""

    rows: int
    """Pairs of tiles of rows."""
    columns: int
    """Pairs of tiles of columns."""
    steps: int
    """Tiles of the depth."""


def tiled(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b: Array, c: Array) -> None:
    """Adds the phases that pack operands, and one that multiplies."""
    left, right = _packings(product, a, b)
    is_there = left.is_in_place or (left.source.is_made and _is_turned(product))
    rows = left.source if is_there else _packed(kernel, arithmetic, product, left)
    batch, columns = count(product.batch), None
    if _is_turned(product):
        columns = _packed(kernel, arithmetic, product, right)
        blocking = _Blocking(1, right.pairs, left.steps)
    elif count(product.rows) <= _FEW and not right.has_rows_along_depth:
        blocking = _Blocking(_BLOCK, greatest(1, least(_WIDE_GROUP, right.pairs * batch // _ITEMS)), _WIDE_STEPS)
    else:
        blocks = -(-left.pairs // _BLOCK)
        if left.pairs > _BLOCK or not right.has_rows_along_depth:
            columns = _packed(kernel, arithmetic, product, right)
        most = _PACKED_GROUP if columns else _GROUP
        blocking = _Blocking(_BLOCK, greatest(1, least(most, right.pairs * blocks * batch // _ITEMS)), _STEPS)
    sums = None
    if left.steps > blocking.steps:
        sums = new_array(kernel, arithmetic.dtype, batch * left.pairs * right.pairs * SIDE * SIDE)
    blocks, groups = -(-left.pairs // blocking.rows), -(-right.pairs // blocking.columns)
    height, width = least(count(product.rows), blocking.rows * SIDE), blocking.columns * SIDE
    cost = 2 * height * width * count(product.depth) // _FASTER
    with kernel.phase(batch * blocks * groups, grain(cost, arithmetic)) as phase:
        multiplication = _Multiplication(phase, arithmetic, product, (left, right), (rows, columns, sums, c), blocking)
        multiplication.emit(blocks, groups)


def _packed(kernel: Kernel, arithmetic: Arithmetic, product: Product, packing: TilePacking) -> Array:
    """An operand as [batch][pair of tiles][step of the depth][tile][line][packed element].

    Read in long runs: along the depth pair by pair, or pairs side by side step by step.
    """
    pairs, steps, batch = packing.pairs, packing.steps, count(product.batch)
    packed = new_array(kernel, s32, batch * pairs * steps * PAIR_BYTES // 4)
    is_along, cost = packing.has_rows_along_depth, SIDE * packing.step // _FASTER
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
                packing.put(b, source, base, pair, step, _moved(b, target, here, PAIR_BYTES))
    return packed


class _Multiplication:
    """The phase that multiplies, whose items are blocks of rows by groups of columns."""

    def __init__(
        self,
        phase: PhaseBuilder,
        arithmetic: Arithmetic,
        product: Product,
        packings: tuple[TilePacking, TilePacking],
        arrays: tuple[Array, Array | None, Array | None, Array],
        blocking: _Blocking,
    ):
        self._phase, self._arithmetic, self._product = phase, arithmetic, product
        self._left, self._right = left, right = packings
        rows, columns, sums, self._c = arrays
        b = self._b = phase.b
        self._rows, self._source, self._target = (x.pointer(phase) for x in (rows, right.source, self._c))
        self._columns = columns.pointer(phase) if columns else None
        self._at_once = blocking
        self._sides = [1 if x.tiles == 1 else 2 for x in packings]
        self._is_wide = columns is None and not right.has_rows_along_depth
        self._local = None
        if columns is None:
            self._local = _memory(b, _WIDE_STEPS * ROWS * _APART if self._is_wide else _GROUP * _STEPS * PAIR_BYTES)
        self._line_buffer = None
        if left.source.is_made:
            self._line_buffer = LineBuffer(b, left.source, SIDE, (_STEPS + 1) * left.step)
        elif right.source.is_made:
            self._line_buffer = LineBuffer(b, right.source, right.step, _WIDE_GROUP * SIDE)
        self._is_split = sums is not None
        self._sums = _memory(b, _SUM_BYTES) if sums is None else sums.pointer(phase)
        self._tiles = TileRegisters(b, left.source.dtype, right.source.dtype)
        self._turned = _memory(b, TILE_BYTES) if _is_turned(product) else POINTER(None)
        self._is_fetched = _is_turned(product) and not left.source.is_made
        self._distances = None
        if len(left.depth) > 1 and left.is_in_place:
            self._distances = allocate(b, I64, _STEPS)
            self._distances.type = POINTER

    def emit(self, blocks: int, groups: int) -> None:
        """The loops over all."""
        b, product, steps, once = self._b, self._product, self._left.steps, self._at_once
        self._tiles.begin()
        with rolled(b, self._phase.begin, self._phase.end, name="item") as item:
            axes = [Axis(n, 0, 0, 0) for n in (count(product.batch), groups, blocks)]
            number, at, block = digits(b, axes, item)
            bases = [linear_offset(b, product.batch, number, x) for x in "abc"]
            top, side = b.mul(block, i64(once.rows)), b.mul(at, i64(once.columns))
            bottom = at_most(b, b.add(top, i64(once.rows)), self._left.pairs)
            last = at_most(b, b.add(side, i64(once.columns)), self._right.pairs)
            first_row, first_column = (b.mul(number, i64(x.pairs)) for x in (self._left, self._right))
            with rolled(b, 0, steps, once.steps, name="depth") as begin:
                some = at_most(b, b.sub(i64(steps), begin), once.steps)
                if self._distances is not None:
                    self._measure(self._distances, begin, some)
                if self._local is not None:
                    self._pack(self._local, bases[1], (side, last), (begin, some))
                with rolled(b, side, last, name="columns") as column, rolled(b, top, bottom, name="rows") as row:
                    lefts = self._places(bases[0], b.add(first_row, row), row)
                    if self._columns is not None:
                        line = b.add(b.mul(b.add(first_column, column), i64(steps)), begin)
                        right = _moved(b, self._columns, line, PAIR_BYTES)
                    else:
                        size = 2 * ROW_BYTES if self._is_wide else once.steps * PAIR_BYTES
                        right = _moved(b, self._local, b.sub(column, side), size)
                    sums = self._sums
                    if self._is_split:
                        slot = b.add(b.mul(b.add(first_column, column), i64(self._left.pairs)), row)
                        sums = _moved(b, sums, slot, _SUM_BYTES)
                    self._multiply(sums, lefts, right, begin, some)
                    is_last = b.icmp_signed("==", b.add(begin, some), i64(steps))
                    with b.if_then(is_last) if self._is_split else nullcontext():
                        self._write(sums, bases[2], row, column)
        self._tiles.end()

    def _measure(self, distances: ir.Value, begin: ir.Value, some: ir.Value) -> None:
        """Keeps how far the steps of a part of the depth lie from the first of all, which takes several numbers."""
        b = self._b
        with rolled(b, 0, some, name="k") as k:
            distance = self._left.distance(b, b.add(begin, k))
            b.store(distance, b.gep(distances, [k], inbounds=True, source_etype=I64))

    def _distance(self, begin: ir.Value, k: ir.Value) -> ir.Value:
        """How far the left tiles of a step of the part of the depth lie from those of the first step of all."""
        b, left = self._b, self._left
        if self._distances is not None:
            return b.load(b.gep(self._distances, [k], inbounds=True, source_etype=I64), typ=I64)
        step = b.add(begin, k)
        return left.distance(b, step) if left.is_in_place else b.mul(step, i64(PAIR_BYTES))

    def _places(self, base: ir.Value, pair: ir.Value, row: ir.Value) -> list[ir.Value]:
        """Where the tiles of a pair of rows begin, which is number `pair` of those of all batches.

        Of an operand that is not in memory, the numbers of their first elements.
        """
        b, left = self._b, self._left
        tiles = [b.add(b.mul(row, i64(2)), i64(n)) for n in (0, 1)]
        if left.source.is_made:
            rows = (left.first_row(b, tile) for tile in tiles)
            return [b.add(base, linear_offset(b, left.rows, first, left.operand)) for first in rows]
        if left.is_in_place:
            return [left.place(b, self._rows, base, tile) for tile in tiles]
        first = _moved(b, self._rows, b.mul(pair, i64(left.steps)), PAIR_BYTES)
        return [_moved(b, first, i64(n), TILE_BYTES) for n in (0, 1)]

    def _pack(
        self,
        local: ir.Value,
        base: ir.Value,
        columns: tuple[ir.Value, ir.Value],
        steps: tuple[ir.Value, ir.Value],
    ) -> None:
        """Packs a part of the depth of a group of columns as [pair][step][tile][packed element][column].

        For few rows as [step][packed element][pair][tile][column].
        """
        b, (side, last), (begin, some) = self._b, columns, steps
        if self._is_wide:
            with rolled(b, 0, some, name="step") as k:
                step = b.add(begin, k)
                source, place = self._made_lines(base, columns, step) or (self._source, self._place_of(base))
                self._right.put_lines(b, source, place, columns, step, _moved(b, local, k, ROWS * _APART), _APART)
            return
        with rolled(b, 0, b.sub(last, side), name="pair") as pair, rolled(b, 0, some, name="step") as step:
            here = _moved(b, local, b.add(b.mul(pair, i64(self._at_once.steps)), step), PAIR_BYTES)
            self._right.put(b, self._source, base, b.add(side, pair), b.add(begin, step), here)

    def _place_of(self, base: ir.Value) -> Callable[[ir.Value], ir.Value]:
        """Where the first column of the right operand has an element of the depth."""
        b, right = self._b, self._right
        return lambda depth: b.add(base, linear_offset(b, right.depth, depth, right.operand))

    def _made_lines(
        self, base: ir.Value, columns: tuple[ir.Value, ir.Value], step: ir.Value
    ) -> tuple[ir.Value, Callable[[ir.Value], ir.Value]] | None:
        """Makes what a group of columns needs of a step of the depth, where the right operand is not in memory.

        Gives the memory that it is then in, and where the first column of all would have an element of the depth there.
        """
        b, right, buffer = self._b, self._right, self._line_buffer
        if buffer is None or not right.source.is_made:
            return None
        first = right.first_row(b, b.mul(columns[0], i64(2)))
        length = b.sub(at_most(b, b.mul(columns[1], i64(SIDE)), count(right.rows)), first)
        depth, stride = b.mul(step, i64(right.step)), i64(inner(right.depth).stride(right.operand))
        lines = at_most(b, b.sub(i64(count(right.depth)), depth), right.step)
        start = b.add(b.add(base, b.mul(depth, stride)), first)
        buffer.fill(b, self._source, start, length, lines, stride)
        return buffer.pointer, lambda at: b.sub(b.mul(b.sub(at, depth), i64(buffer.apart)), first)

    def _multiply(
        self, sums: ir.Value, lefts: list[ir.Value], right: ir.Value, begin: ir.Value, some: ir.Value
    ) -> None:
        """Adds a part of the depth to sums in memory, which are [row][column]."""
        b, tiles = self._b, self._tiles
        apart, beside, step = ROW_BYTES, TILE_BYTES, PAIR_BYTES
        if self._is_wide:
            apart, beside, step = _APART, ROW_BYTES, ROWS * _APART
        rows, columns = self._sides
        places = {
            2 * row + column: b.gep(
                sums, [i64(row * 2 * TILE_BYTES + column * ROW_BYTES)], inbounds=True, source_etype=I8
            )
            for row in range(rows)
            for column in range(columns)
        }
        if self._is_split:
            with b.if_else(b.icmp_signed("==", begin, i64(0))) as (is_first, is_later):
                with is_first:
                    for tile in places:
                        tiles.clear(tile)
                with is_later:
                    for tile, place in places.items():
                        tiles.load(tile, place, i64(2 * ROW_BYTES))
        else:
            for tile in places:
                tiles.clear(tile)
        with self._steps(lefts, begin, some) as (k, here, stride):
            rights = [_moved(b, _moved(b, right, k, step), i64(n), beside) for n in (0, 1)]
            tiles.load(4, here[0], stride)
            for column in range(columns):
                tiles.load(6 + column, rights[column], i64(apart))
                tiles.multiply_add(column, 4, 6 + column)
            if rows > 1:
                tiles.load(5, here[1], stride)
                for column in range(columns):
                    tiles.multiply_add(2 + column, 5, 6 + column)
            if self._is_fetched:
                self._fetch(lefts[0], b.add(begin, k))
        for tile, place in places.items():
            tiles.store(tile, place, i64(2 * ROW_BYTES))

    @contextmanager
    def _steps(
        self, lefts: list[ir.Value], begin: ir.Value, some: ir.Value
    ) -> Iterator[tuple[ir.Value, list[ir.Value], ir.Value]]:
        """The loop over steps of the depth: the step's number, where its left tiles are, and how far apart their rows.

        Those that are not in memory are made, some steps at a time.
        """
        b, left, buffer = self._b, self._left, self._line_buffer
        if buffer is None or not left.source.is_made:
            stride = i64(inner(left.rows).a * left.source.dtype.bytes if left.is_in_place else ROW_BYTES)
            with rolled(b, 0, some, name="k") as k:
                distance = self._distance(begin, k)
                yield k, [_moved(b, pointer, distance, 1) for pointer in lefts], stride
            return
        line = i64(buffer.apart * left.source.dtype.bytes)
        with rolled(b, 0, some, _STEPS, name="part") as part:
            size = at_most(b, b.sub(some, part), _STEPS)
            elements, row = b.mul(b.add(begin, part), i64(left.step)), i64(inner(left.rows).a)
            for n, first in enumerate(lefts):
                length = b.mul(size, i64(left.step))
                buffer.fill(b, self._rows, b.add(first, elements), length, i64(ROWS), row, number=n * ROWS)
            with rolled(b, 0, size, name="k") as k:
                tiles = [b.add(b.mul(line, i64(n * ROWS)), b.mul(k, i64(ROW_BYTES))) for n in range(len(lefts))]
                yield b.add(part, k), [_moved(b, buffer.pointer, at, 1) for at in tiles], line

    def _fetch(self, first: ir.Value, step: ir.Value) -> None:
        """Fetches tiles of a pair of rows some steps before they are read."""
        b, row = self._b, inner(self._left.rows)
        ahead = _moved(b, first, b.add(step, i64(_AHEAD)), LINE)
        for line in range(SIDE):
            at = i64(line * row.a * self._left.source.dtype.bytes)
            fetch(b, b.gep(ahead, [at], source_etype=I8))

    def _write(self, sums: ir.Value, target: ir.Value, row: ir.Value, column: ir.Value) -> None:
        """Stores sums in the result."""
        b, left, right = self._b, self._left, self._right
        columns = [right.first_row(b, b.add(b.mul(column, i64(2)), i64(n))) for n in range(self._sides[1])]
        with rolled(b, 0, self._sides[0], name="tile") as tile:
            first = left.first_row(b, b.add(b.mul(row, i64(2)), tile))
            line = b.mul(tile, i64(ROWS * SIDE))
            for n, at in enumerate(columns):
                here = _moved(b, sums, b.add(line, i64(n * ROWS)), self._arithmetic.dtype.bytes)
                if _is_turned(self._product):
                    self._turn(here)
                    self._lines(self._turned, ROWS, b.add(target, first), at, inner(right.rows).c, right.line)
                else:
                    self._lines(here, SIDE, b.add(target, at), first, inner(left.rows).c, left.line)

    def _turn(self, sums: ir.Value) -> None:
        """Puts the sums of a tile, transposed, into memory of their own."""
        b, arithmetic = self._b, self._arithmetic
        lines = [arithmetic.load(b, sums, arithmetic.dtype, i64(r * SIDE), ROWS)[0] for r in range(ROWS)]
        for r, line in enumerate(transposed(b, lines)):
            arithmetic.store(b, self._turned, arithmetic.dtype, i64(r * ROWS), [line])

    def _lines(self, sums: ir.Value, spread: int, target: ir.Value, first: ir.Value, apart: int, most: int) -> None:
        """Stores lines of a tile of sums, which are `spread` elements long, as lines of the result from `first` on."""
        b, arithmetic = self._b, self._arithmetic
        start = b.add(target, b.mul(first, i64(apart)))
        with rolled(b, 0, least(ROWS, most), name="line") as k:
            value = arithmetic.load(b, sums, arithmetic.dtype, b.mul(k, i64(spread)), ROWS)
            arithmetic.store(b, self._target, self._c.dtype, b.add(start, b.mul(k, i64(apart))), value)


def _moved(b: ir.IRBuilder, pointer: ir.Value, number: ir.Value, nbytes: int) -> ir.Value:
    """Where the `number`-th piece of so many bytes lies."""
    return b.gep(pointer, [b.mul(number, i64(nbytes))], inbounds=True, source_etype=I8)


def _memory(b: ir.IRBuilder, nbytes: int) -> ir.Value:
    """Memory on the stack."""
    memory = allocate(b, I8, nbytes)
    memory.align, memory.type = 64, POINTER
    return memory
