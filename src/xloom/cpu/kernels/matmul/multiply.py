"""The choice of a strategy to compute a product."""

from __future__ import annotations

from collections.abc import Callable

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, accumulator
from xloom.cpu.kernels.matmul.axes import Product, count, inner
from xloom.cpu.kernels.matmul.blocked_product import blocked, depth_block, has_scalars_in_place
from xloom.cpu.kernels.matmul.direct import direct
from xloom.cpu.kernels.matmul.fused_operands import has_lines
from xloom.cpu.kernels.matmul.operands import (
    Array,
    cleared,
    made_whole,
    new_array,
    readable,
    stored_sums,
    widened_array,
)
from xloom.cpu.kernels.matmul.packed_pairs import in_pairs
from xloom.cpu.kernels.matmul.vector import is_few_vectors, is_vector_product, multiply_vector
from xloom.hlo.dtype import DType

_SHARE = 4
"""Of the second cache, an operand may take one of so many parts: it is read from there as fast as it is multiplied."""
_ROW_BYTES = 2048
"""How far apart its rows may lie then. A page apart, they would evict one another from the first-level cache."""

_DEPTH = 512
"""And how many products are added up one by one. Of longer sums, those of pieces are added, which err less."""
_PAIRED_ROWS, _PAIRED_DEPTH = 64, 16
"""Rows and products of a sum from which on operands are packed for pairs, though they are small enough to be read."""
_REPACKED = 512
"""Columns, for whose blocks rows would be packed so often that a wider copy of them, read in place, takes less."""


def multiply(
    kernel: Kernel, product: Product, a: Array, b: Array, c: Array, through: tuple[DType | None, ...] = (None, None)
) -> None:
    """The phases of `c = a * b`; operands are first rounded to the types in `through`."""
    size = count(product.batch) * count(product.rows) * count(product.columns)
    if size == 0 or count(product.depth) == 0:
        cleared(kernel, c, size)
        return
    arithmetic = Arithmetic(accumulator(c.dtype), kernel.target)
    outer = count(product.batch) * count(product.depth)
    a = readable(kernel, arithmetic, a, outer * count(product.rows), through[0])
    b = readable(kernel, arithmetic, b, outer * count(product.columns), through[1])
    # a row times a matrix is the matrix, transposed, times a column
    if count(product.rows) == 1 or is_few_vectors(product.transposed, b, kernel.target.caches):
        product, a, b = product.transposed, b, a
    strategy = _strategy(arithmetic, product, a, b)
    if not _takes_lines(strategy, arithmetic, product, a, "a"):
        a = made_whole(kernel, a, outer * count(product.rows))
    if not _takes_lines(strategy, arithmetic, product, b, "b") or a.is_made:
        b = made_whole(kernel, b, outer * count(product.columns))
    if strategy is blocked:
        arithmetic = in_pairs(arithmetic, a.dtype, b.dtype)
        a = _widened(kernel, arithmetic, product, a, outer * count(product.rows))
    split = strategy is blocked and depth_block(arithmetic, product) * arithmetic.pack_factor < count(product.depth)
    whole = arithmetic.stores(c.dtype) and (c.dtype is arithmetic.dtype or c.dtype.is_integer or not split)
    sums = c if whole else new_array(kernel, arithmetic.dtype, size)
    strategy(kernel, arithmetic, product, a, b, sums)
    if sums is not c:
        stored_sums(kernel, arithmetic, sums, size, c)


def _widened(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, size: int) -> Array:
    """The left operand in a type that its scalars are read of where they lie, if it would be packed many times else."""
    if a.is_made or a.dtype.bytes >= arithmetic.dtype.bytes or arithmetic.pack_factor > 1:
        return a
    copy = Array(a.kind, a.number, arithmetic.dtype)
    if not has_scalars_in_place(arithmetic, product, copy) or count(product.columns) < _REPACKED:
        return a
    return a if count(product.rows) > count(product.columns) else widened_array(kernel, arithmetic, a, size)


def _strategy(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> Callable:
    if is_vector_product(product) or is_few_vectors(product, a, arithmetic.target.caches):
        return multiply_vector
    if _is_better_in_pairs(arithmetic, product, a, b):
        return blocked
    return direct if _is_read_in_place(arithmetic, product, b) else blocked


def _is_better_in_pairs(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> bool:
    """True when two products can be added at once, and there are enough of them to pack the operands for."""
    if in_pairs(arithmetic, a.dtype, b.dtype).pack_factor == 1:
        return False
    return count(product.rows) >= _PAIRED_ROWS and count(product.depth) >= _PAIRED_DEPTH


def _takes_lines(strategy: Callable, arithmetic: Arithmetic, product: Product, array: Array, operand: str) -> bool:
    """True when an operand can be made as it is multiplied."""
    if arithmetic.parts > 1 or strategy is direct:
        return False
    return operand == "a" if strategy is multiply_vector else has_lines(product, operand)


def _is_read_in_place(arithmetic: Arithmetic, product: Product, b: Array) -> bool:
    """True when it costs less to read the right operand where it lies than to rearrange it first."""
    column, size = inner(product.columns), b.dtype.bytes
    if b.is_made or len(product.columns) > 1 or (column.size > 1 and (column.b, column.c) != (1, 1)):
        return False
    nbytes = count(product.columns) * count(product.depth) * size
    caches = arithmetic.target.caches
    if nbytes <= caches.first or count(product.rows) <= 4:
        return True
    if nbytes > caches.second // _SHARE or b.dtype is not arithmetic.dtype or count(product.depth) > _DEPTH:
        return False
    return all(x.b * size <= _ROW_BYTES for x in product.depth)
