"""Tiles of a product's output: which block has which, and how its elements are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from llvmlite import ir

from xloom.cuda.kernels.epilogue import EpilogueCode
from xloom.cuda.kernels.product import Place, Product
from xloom.hlo.dtype import DType, Kind
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.scalar.conversion import converted, narrow_exact
from xloom.llvm.types import I8, I32, I64, Value, memory_type

_TOGETHER = 8
"""Rows of tiles that neighbouring blocks go down before the next column: caches have what they read then."""


class TileOrder:
    """The tiles of `height` x `width` elements of a product."""

    def __init__(self, product: Product, height: int, width: int):
        self._height, self._width = height, width
        self._rows, self._columns = -(-product.m // height), -(-product.n // width)
        self.count = product.batch * self._rows * self._columns

    def place(self, b: ir.IRBuilder, block: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """A block's batch, and the first row and column of its tile (all i64)."""
        each = self._rows * self._columns
        batch, tile = b.udiv(block, I64(each)), b.urem(block, I64(each))
        strip = _TOGETHER * self._columns
        first = b.mul(b.udiv(tile, I64(strip)), I64(_TOGETHER), flags=["nsw", "nuw"])
        rows = intrinsic(b, "umin", b.sub(I64(self._rows), first), I64(_TOGETHER))
        within = b.urem(tile, I64(strip))
        row, column = b.add(first, b.urem(within, rows), flags=["nsw", "nuw"]), b.udiv(within, rows)
        starts = [b.mul(row, I64(self._height)), b.mul(column, I64(self._width))]
        return batch, starts


class TileStore:
    """How elements of tiles are stored: sums of type `kept` as `dtype`, after what an epilogue does to them."""

    def __init__(
        self, product: Product, tile: tuple[int, int], dtype: DType, kept: DType, epilogue: EpilogueCode | None
    ):
        self._product, self._dtype, self._kept, self._epilogue = product, dtype, kept, epilogue
        self._is_whole = product.m % tile[0] == 0, product.n % tile[1] == 0
        """Whether all rows of tiles are in the output, and all columns."""

    def pair(self, b: ir.IRBuilder, pointer: ir.Value, place: Place, pair: Sequence[ir.Value]) -> None:
        """Stores two neighbours of a row, from an even column on, where they are in the output."""
        product, (batch, row, column) = self._product, place
        if not product.has_pairs:
            for lane, value in enumerate(pair):
                self.one(b, pointer, (batch, row, b.add(column, I64(lane), flags=["nsw"])), value)
            return
        kind = ir.VectorType(memory_type(self._dtype), 2)
        with self._inside(b, place):
            vector = ir.Constant(kind, ir.Undefined)
            for lane, value in enumerate(pair):
                at = batch, row, b.add(column, I64(lane), flags=["nsw"])
                vector = b.insert_element(vector, self._narrow(b, self._result(b, at, value)), I32(lane))
            index = product.output_index(b, batch, row, column)
            address = b.gep(pointer, [index], inbounds=True, source_etype=memory_type(self._dtype))
            b.store(vector, address, align=2 * self._dtype.bytes)

    def one(self, b: ir.IRBuilder, pointer: ir.Value, place: Place, value: Value) -> None:
        """Stores an element, where it is in the output."""
        with self._inside(b, place):
            index = self._product.output_index(b, *place)
            element_access.store(b, pointer, self._dtype, index, self._result(b, place, value), exact=True)

    @contextmanager
    def _inside(self, b: ir.IRBuilder, place: Place) -> Iterator[None]:
        ends = zip(place[1:], (self._product.m, self._product.n), self._is_whole, strict=True)
        conditions = [b.icmp_signed("<", number, I64(size)) for number, size, is_whole in ends if not is_whole]
        if conditions:
            with b.if_then(reduce(b.and_, conditions)):
                yield
        else:
            yield

    def _result(self, b: ir.IRBuilder, place: Place, value: Value) -> Value:
        if self._epilogue is not None:
            return self._epilogue.to_store(place, value, self._kept)
        return converted(b, value, self._kept, self._dtype)

    def _narrow(self, b: ir.IRBuilder, value: Value) -> Value:
        """A value as it lies in memory."""
        if self._dtype.kind is Kind.PRED:
            return b.zext(value, I8)
        is_register = self._dtype.is_float and value.type != memory_type(self._dtype)
        return narrow_exact(b, value, self._dtype) if is_register else value
