"""Operands as tiles: squares of 16 rows (or columns) by 16 packed elements of the depth.

The last tile of rows has some rows of the one before it, where these are no whole number of tiles, and a row more than
once where there are too few for one; past the end of the depth are zeros, and of each of its lines that is no whole
number of tiles: those of a window, say, in an image of few channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from llvmlite import ir

from xloom.cpu.kernels.matmul.amx_tiles import ROW_BYTES, ROWS, TILE_BYTES
from xloom.cpu.kernels.matmul.axes import Axes, Axis, count, digits, inner, linear_offset
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packing import transposed
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.llvm.cache_lines import fetch
from xloom.llvm.masked_lanes import leading_lanes, masked_load
from xloom.llvm.symbolic_dimension import divides, greatest
from xloom.llvm.types import I8, I32, element_pointer, i64, memory_type
from xloom.llvm.vectors import splat, uniform

_LEAST_ROWS = 12
"""Of a tile: with fewer, it is better to pack rows of several lines."""
_AHEAD = 4
"""Steps of the depth before which the lines of a matrix are fetched: there are too many for the hardware to follow."""
_LINES_AHEAD = 2
"""Lines of packed elements before which those of a matrix in memory are fetched."""
_LINE = ir.VectorType(I32, ROWS)
"""A row of a tile: packed elements side by side."""


@dataclass(frozen=True)
class TilePacking:
    """How squares are made of operand "a" or "b": its array, its rows (or columns) and its depth."""

    source: Array
    operand: str
    rows: Axes
    depth: Axes
    by_rows: bool
    """True for lines of a row each, as the left tile has them; else of a packed element of the depth."""
    is_copied: bool = False
    """True where it is packed though it could be read in place."""

    @property
    def line(self) -> int:
        """Rows that lie evenly apart: of what is read in place a tile's rows are of one line."""
        return inner(self.rows).size if self.is_in_place else count(self.rows)

    @property
    def tiles(self) -> int:
        """Tiles of rows. The last one of a line ends with it, and has some of those of the one before it again."""
        return -(-self.line // ROWS) * (count(self.rows) // self.line)

    @property
    def pairs(self) -> int:
        """Pairs of tiles of rows; one more tile is the second of the last pair."""
        return -(-self.tiles // 2)

    def first_row(self, b: ir.IRBuilder, tile: ir.Value) -> ir.Value:
        """The first row of a tile; of the last one for those that are more."""
        tile = at_most(b, tile, self.tiles - 1)
        if len(self.rows) <= 1 or not self.is_in_place:
            return at_most(b, b.mul(tile, i64(ROWS)), greatest(0, self.line - ROWS))
        line, at = digits(b, [Axis(count(self.rows) // self.line, 0, 0, 0), Axis(-(-self.line // ROWS), 0, 0, 0)], tile)
        begin = at_most(b, b.mul(at, i64(ROWS)), greatest(0, self.line - ROWS))
        return b.add(b.mul(line, i64(self.line)), begin)

    def first_rows(self, b: ir.IRBuilder, pair: ir.Value) -> list[ir.Value]:
        """The first rows of the tiles of a pair."""
        return [self.first_row(b, b.add(b.mul(pair, i64(2)), i64(n))) for n in (0, 1)]

    def place(self, b: ir.IRBuilder, pointer: ir.Value, base: ir.Value, tile: ir.Value) -> ir.Value:
        """Where the tile begins that is read in place, at the first step of the depth."""
        at = b.add(base, linear_offset(b, self.rows, self.first_row(b, tile), self.operand))
        return element_pointer(b, pointer, self.source.dtype, at)

    def distance(self, b: ir.IRBuilder, step: ir.Value) -> ir.Value:
        """How many bytes a step of the depth lies from the first, where tiles are read in place."""
        at = linear_offset(b, self.depth, b.mul(step, i64(self.step)), self.operand)
        return b.mul(at, i64(self.source.dtype.bytes))

    @property
    def pack_factor(self) -> int:
        """Elements of the depth in a packed one."""
        return 4 // self.source.dtype.bytes

    @property
    def step(self) -> int:
        """Elements of the depth in a tile."""
        return ROWS * self.pack_factor

    @property
    def steps(self) -> int:
        """Tiles of the depth."""
        line = inner(self.depth).size if self.has_padded_lines else count(self.depth)
        return -(-line // self.step) * (count(self.depth) // line)

    @cached_property
    def has_padded_lines(self) -> bool:
        """True where each line of the depth has tiles of its own, the last of which is filled up with zeros."""
        line = inner(self.depth).size
        return len(self.depth) > 1 and 2 * line >= self.step and line % self.step != 0

    @cached_property
    def has_rows_along_depth(self) -> bool:
        """True where a row's elements of a tile lie side by side."""
        depth = inner(self.depth)
        is_whole = len(self.depth) == 1 or self.has_padded_lines or depth.size % self.step == 0
        return depth.stride(self.operand) == 1 and is_whole

    @cached_property
    def is_in_place(self) -> bool:
        """True where tiles are read where they lie: left ones, if they lie there whole but for the last step's."""
        depth = inner(self.depth)
        if self.is_copied or self.has_padded_lines or not (self.by_rows and self.has_rows_along_depth):
            return False
        if depth.size < self.step:
            return False
        row = inner(self.rows)
        return row.size >= ROWS or (row.size >= _LEAST_ROWS and self.source.slack >= (ROWS - row.size) * row.a)

    @cached_property
    def has_tail(self) -> bool:
        """True where all is read in place but the last step of the depth, which has fewer elements."""
        return self.is_in_place and not divides(self.step, count(self.depth))

    @cached_property
    def has_rows_side_by_side(self) -> bool:
        """True where elements of a tile's rows lie side by side, for each element of the depth."""
        row = inner(self.rows)
        return row.stride(self.operand) == 1 and row.size >= ROWS and (len(self.rows) == 1 or row.size % ROWS == 0)

    @cached_property
    def lies_in_tiles(self) -> bool:
        """True where memory has what is packed already: pair by pair, and step by step of the depth in each."""
        if self.by_rows or (len(self.rows), len(self.depth)) != (3, 3):
            return False
        _, pair, columns = self.rows
        steps, lines, packed = self.depth
        tile = ROWS * ROWS * self.pack_factor
        sizes = [x.size for x in (pair, columns, lines, packed)]
        strides = [x.stride(self.operand) for x in (*self.rows, *self.depth)]
        expected = [steps.size * 2 * tile, tile, self.pack_factor, 2 * tile, ROWS * self.pack_factor, 1]
        return sizes == [2, ROWS, ROWS, self.pack_factor] and strides == expected

    @property
    def is_packed(self) -> bool:
        """True where tiles can be made of vectors that are loaded, or are there."""
        return self.has_rows_along_depth or self.has_rows_side_by_side or self.lies_in_tiles

    def put(
        self, b: ir.IRBuilder, pointer: ir.Value, base: ir.Value, pair: ir.Value, step: ir.Value, target: ir.Value
    ) -> None:
        """Packs two tiles of rows of a step of the depth; row 0 lies `base` elements from `pointer` on."""
        with rolled(b, 0, 2, name="tile") as tile:
            first = self.first_row(b, b.add(b.mul(pair, i64(2)), tile))
            if self.has_rows_along_depth:
                lines = self._rows(b, pointer, base, first, step)
            else:
                lines = self._columns(b, pointer, base, first, step)
            here = b.mul(tile, i64(TILE_BYTES))
            for k, line in enumerate(lines if self.by_rows == self.has_rows_along_depth else transposed(b, lines)):
                place = b.gep(target, [b.add(here, i64(k * ROW_BYTES))], inbounds=True, source_etype=I8)
                b.store(line, place, align=ROW_BYTES)

    def put_lines(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        place: Callable[[ir.Value], ir.Value],
        pairs: tuple[ir.Value, ir.Value],
        step: ir.Value,
        target: ir.Value,
        apart: int,
        is_far: bool,
    ) -> None:
        """Packs some pairs of tiles of a step of the depth, which are read along the rows of memory.

        `place` says where an element of the depth lies of column 0. Lines of packed elements lie `apart` bytes from
        each other, those of all tiles side by side in them. What `is_far` is fetched from memory some lines before.
        """
        begin, most = self._line(b, step)
        with rolled(b, 0, ROWS, name="line") as k:
            depths, masks = self._depths(b, begin, most, b.mul(k, i64(self.pack_factor)))
            here = [place(depth) for depth in depths]
            line = b.gep(target, [b.mul(k, i64(apart))], inbounds=True, source_etype=I8)
            later = [place(b.add(depth, i64(_LINES_AHEAD * self.pack_factor))) for depth in depths] if is_far else []
            with rolled(b, *pairs, name="pair") as pair:
                row = self.first_row(b, b.mul(pair, i64(2)))
                for at in later:
                    ahead = b.add(at, linear_offset(b, self.rows, row, self.operand))
                    fetch(b, element_pointer(b, pointer, self.source.dtype, ahead))
                for tile in (0, 1):
                    first = self.first_row(b, b.add(b.mul(pair, i64(2)), i64(tile)))
                    column = linear_offset(b, self.rows, first, self.operand)
                    packed = self._joined(b, pointer, [b.add(at, column) for at in here], masks)
                    at = b.add(b.mul(b.sub(pair, pairs[0]), i64(2 * ROW_BYTES)), i64(tile * ROW_BYTES))
                    b.store(packed, b.gep(line, [at], inbounds=True, source_etype=I8), align=ROW_BYTES)

    def _joined(self, b: ir.IRBuilder, pointer: ir.Value, places: list[ir.Value], masks: list[ir.Value]) -> ir.Value:
        """A line of packed elements, each of those that lie in these places, where there is a mask only some."""
        line: ir.Value = uniform(_LINE, 0)
        for p, at in enumerate(places):
            value = b.zext(self._load(b, pointer, at, ROWS, None), _LINE)
            value = b.and_(value, masks[p]) if masks else value
            line = b.or_(line, b.shl(value, uniform(_LINE, 8 * self.source.dtype.bytes * p))) if p else value
        return line

    def _rows(
        self, b: ir.IRBuilder, pointer: ir.Value, base: ir.Value, first: ir.Value, step: ir.Value
    ) -> list[ir.Value]:
        depth, most = self._line(b, step)
        here = b.add(base, linear_offset(b, self.depth, depth, self.operand))
        mask = None if most is None else leading_lanes(b, self.step, most)
        lines = []
        for r in range(ROWS):
            row = i64(min(r, count(self.rows) - 1)) if count(self.rows) < ROWS else b.add(first, i64(r))
            at = b.add(here, linear_offset(b, self.rows, row, self.operand))
            if not self.by_rows:
                following = b.add(at, i64(_AHEAD * self.step))
                fetch(b, element_pointer(b, pointer, self.source.dtype, following), near=False)
            lines.append(b.bitcast(self._load(b, pointer, at, self.step, mask), _LINE))
        return lines

    def _columns(
        self, b: ir.IRBuilder, pointer: ir.Value, base: ir.Value, first: ir.Value, step: ir.Value
    ) -> list[ir.Value]:
        here = b.add(base, linear_offset(b, self.rows, first, self.operand))
        lines = []
        begin, most = self._line(b, step)
        for k in range(ROWS):
            depths, masks = self._depths(b, begin, most, i64(k * self.pack_factor))
            places = [b.add(here, linear_offset(b, self.depth, depth, self.operand)) for depth in depths]
            lines.append(self._joined(b, pointer, places, masks))
        return lines

    def _line(self, b: ir.IRBuilder, step: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The first element of a step of the depth, and how many its line has from there on, if they may be too few."""
        size = count(self.depth)
        if not self.has_padded_lines:
            begin = b.mul(step, i64(self.step))
            return begin, None if divides(self.step, size) else b.sub(i64(size), begin)
        line = inner(self.depth).size
        number, part = digits(b, [Axis(size // line, 0, 0, 0), Axis(-(-line // self.step), 0, 0, 0)], step)
        first = b.mul(part, i64(self.step))
        return b.add(b.mul(number, i64(line)), first), b.sub(i64(line), first)

    def _depths(
        self, b: ir.IRBuilder, begin: ir.Value, most: ir.Value | None, first: ir.Value
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Where the elements of a packed one lie in the depth, and masks of those that are not past the line's end."""
        places = [b.add(first, i64(p)) for p in range(self.pack_factor)]
        depths = [b.add(begin, place) for place in places]
        if most is None:
            return depths, []
        inside = [b.sext(b.icmp_signed("<", place, most), I32) for place in places]
        return [at_most(b, depth, count(self.depth) - 1) for depth in depths], [splat(b, x, ROWS) for x in inside]

    def _load(self, b: ir.IRBuilder, pointer: ir.Value, at: ir.Value, lanes: int, mask: ir.Value | None) -> ir.Value:
        dtype = self.source.dtype
        address, kind = element_pointer(b, pointer, dtype, at), ir.VectorType(memory_type(dtype), lanes)
        if mask is None:
            return b.load(address, typ=kind, align=dtype.bytes)
        return masked_load(b, address, mask, uniform(kind, 0), dtype.bytes)
