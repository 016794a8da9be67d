"""Square tiles of matrices, transposed in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.hlo.dtype import DType
from xloom.llvm.loop import loop
from xloom.llvm.register_transpose import transposed
from xloom.llvm.symbolic_dimension import SymbolicDimension, greatest, least
from xloom.llvm.types import I64, i64

Size = int | SymbolicDimension | ir.Value
"""How far apart rows are, or how many there are: a number, or what a table has when the kernel runs."""
_ELEMENTS = 40_000
"""Moved by one thread in about 20 µs."""


@dataclass(frozen=True)
class SquareTile:
    """A tile of `size` by `size` elements; a power of two."""

    dtype: DType
    size: int

    @classmethod
    def of(cls, dtype: DType, smallest: int | SymbolicDimension) -> SquareTile:
        """The largest that fits in a matrix whose smallest dimension is given."""
        size = 4 if dtype.bytes > 8 else 8
        while smallest < size:
            size //= 2
        return cls(dtype, size)

    @property
    def element(self) -> ir.IntType:
        """An integer type as wide as an element."""
        return ir.IntType(8 * self.dtype.bytes)

    @property
    def align(self) -> int:
        """What an element's address is a multiple of."""
        return self.dtype.bytes // (2 if self.dtype.is_complex else 1)

    def load(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, stride: Size) -> list[ir.Value]:
        """Rows that are `stride` elements apart."""
        kind = ir.VectorType(self.element, self.size)
        rows = [self._row(b, pointer, index, k, stride) for k in range(self.size)]
        return [b.load(row, typ=kind, align=self.align) for row in rows]

    def store(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, stride: Size, rows: list[ir.Value]) -> None:
        """Writes a square's rows, `stride` elements apart, from element `index` on."""
        for k, row in enumerate(rows):
            b.store(row, self._row(b, pointer, index, k, stride), align=self.align)

    def _row(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, k: int, stride: Size) -> ir.Value:
        offset = b.mul(I64(k), stride) if isinstance(stride, ir.Value) else i64(k * stride)
        return b.gep(pointer, [b.add(index, offset)], inbounds=True, source_etype=self.element)

    @contextmanager
    def along(self, b: ir.IRBuilder, first: ir.Value, length: Size) -> Iterator[ir.Value]:
        """Loops over the starts of tiles from `first`; the last one may overlap the one before."""
        with loop(b, first, length, self.size, "tile") as start:
            yield self.inside(b, start, length)

    def inside(self, b: ir.IRBuilder, start: ir.Value, length: Size) -> ir.Value:
        """The start of a tile, moved back so that the tile does not leave the matrix."""
        last = b.sub(length, I64(self.size)) if isinstance(length, ir.Value) else i64(length - self.size)
        return b.select(b.icmp_signed("<", start, last), start, last)


def transpose(
    kernel: Kernel,
    dtype: DType,
    sizes: tuple[Any, Any, Any],
    pointers: Callable[[PhaseBuilder], tuple[ir.Value, ir.Value]],
) -> None:
    """A phase that transposes `sizes[0]` matrices from one of `pointers` to the other."""
    batch, rows, columns = sizes
    tile = SquareTile.of(dtype, least(rows, columns))
    bands = -(-rows // tile.size)
    grain = greatest(1, _ELEMENTS // (columns * tile.size))
    with kernel.phase(batch * bands, grain) as p, loop(p.b, p.begin, p.end) as item:
        b = p.b
        source, target = pointers(p)
        number = b.udiv(item, i64(bands))
        base = b.mul(number, i64(rows * columns))
        row = tile.inside(b, b.mul(b.sub(item, b.mul(number, i64(bands))), I64(tile.size)), rows)
        with tile.along(b, I64(0), columns) as column:
            source_index = b.add(base, b.add(b.mul(row, i64(columns)), column))
            target_index = b.add(base, b.add(b.mul(column, i64(rows)), row))
            tile.store(b, target, target_index, rows, transposed(b, tile.load(b, source, source_index, columns)))


def transpose_in_place(kernel: Kernel, dtype: DType, batch: Any, n: Any) -> None:
    """A phase that transposes `batch` matrices of n rows, the first operand, where they lie; an item is a band."""
    tile = SquareTile.of(dtype, n)
    size = tile.size
    bands, whole = -(-n // size), n // size * size
    with kernel.phase(batch * bands, greatest(1, _ELEMENTS // (n * size))) as p, loop(p.b, p.begin, p.end) as item:
        b, matrices = p.b, p.operand(0)
        number = b.udiv(item, i64(bands))
        base = b.mul(number, i64(n * n))
        row = b.mul(b.sub(item, b.mul(number, i64(bands))), I64(size))

        def at(r: ir.Value, c: ir.Value) -> ir.Value:
            return b.add(base, b.add(b.mul(r, i64(n)), c))

        def load_transposed(index: ir.Value) -> list[ir.Value]:
            return transposed(b, tile.load(b, matrices, index, n))

        def swap(r: ir.Value, c: ir.Value) -> None:
            x, y = (
                b.gep(matrices, [at(*position)], inbounds=True, source_etype=tile.element)
                for position in ((r, c), (c, r))
            )
            above, below = (b.load(pointer, typ=tile.element, align=tile.align) for pointer in (x, y))
            b.store(above, y, align=tile.align)
            b.store(below, x, align=tile.align)

        with b.if_else(b.icmp_signed("<", row, i64(whole))) as (is_whole, is_rest):
            with is_whole:
                corner = at(row, row)
                tile.store(b, matrices, corner, n, load_transposed(corner))
                with loop(b, b.add(row, I64(size)), whole, size, "column") as column:
                    above, below = at(row, column), at(column, row)
                    transposed_above, transposed_below = load_transposed(above), load_transposed(below)
                    tile.store(b, matrices, below, n, transposed_above)
                    tile.store(b, matrices, above, n, transposed_below)
                with loop(b, whole, n, name="column") as column, loop(b, 0, size, name="row") as k:
                    swap(b.add(row, k), column)
            with is_rest, loop(b, row, n, name="row") as r, loop(b, row, r, name="column") as column:
                swap(r, column)
