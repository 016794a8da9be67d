"""Tiles of a product's output: which block has which, and how its elements are stored."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cuda.kernels.product import Product
from xloom.hlo.dtype import DType, f32
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.scalar.conversion import converted, narrow
from xloom.llvm.types import I32, I64, memory_type

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


def store_pair(
    b: ir.IRBuilder,
    product: Product,
    dtype: DType,
    pointer: ir.Value,
    batch: ir.Value,
    place: tuple[ir.Value, ir.Value],
    pair: Sequence[ir.Value],
    kept: DType = f32,
) -> None:
    """Two neighbours of the output (of type `kept`), of a row and an even column, where they are inside."""
    row, column = place
    is_row = b.icmp_signed("<", row, I64(product.m))
    if product.has_pairs:
        index = product.output_index(b, batch, row, column)
        kind = ir.VectorType(memory_type(dtype), 2)
        with b.if_then(b.and_(is_row, b.icmp_signed("<", column, I64(product.n)))):
            vector = ir.Constant(kind, ir.Undefined)
            for lane, value in enumerate(pair):
                value = value if dtype is kept else narrow(b, value, dtype)
                vector = b.insert_element(vector, value, I32(lane))
            address = b.gep(pointer, [index], inbounds=True, source_etype=memory_type(dtype))
            b.store(vector, address, align=2 * dtype.bytes)
        return
    for lane, value in enumerate(pair):
        inside = b.and_(is_row, b.icmp_signed("<", column, I64(product.n - lane)))
        with b.if_then(inside):
            index = product.output_index(b, batch, row, b.add(column, I64(lane), flags=["nsw"]))
            element_access.store(b, pointer, dtype, index, converted(b, value, kept, dtype), exact=True)
