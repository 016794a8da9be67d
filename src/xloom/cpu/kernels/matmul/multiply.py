"""The choice of a strategy to compute a product."""

from __future__ import annotations

from collections.abc import Callable

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.amx_few_rows import few_rows, has_few_rows, is_better_turned, takes_lines
from xloom.cpu.kernels.matmul.amx_product import is_tiled, tiled
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, accumulator
from xloom.cpu.kernels.matmul.axes import Product, count, inner
from xloom.cpu.kernels.matmul.blocked_product import blocked, depth_block, has_scalars_in_rows
from xloom.cpu.kernels.matmul.depth_slices import add_slices, sliced, slices_of
from xloom.cpu.kernels.matmul.direct import direct
from xloom.cpu.kernels.matmul.fused_operands import has_lines
from xloom.cpu.kernels.matmul.operands import (
    Array,
    cleared,
    given_whole,
    made_whole,
    new_array,
    readable,
    stored_sums,
    widened_array,
)
from xloom.cpu.kernels.matmul.packed_pairs import in_pairs
from xloom.cpu.kernels.matmul.vector import is_few_vectors, is_vector_product, multiply_vector
from xloom.hlo.dtype import DType
from xloom.llvm.cache_lines import LINE
from xloom.llvm.symbolic_dimension import number

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
    arithmetic = Arithmetic(accumulator(c.dtype), kernel.target)
    if c.has_epilogue and not _gives_sums(arithmetic, product, a, b, c):
        sums = new_array(kernel, c.dtype, size)
        multiply(kernel, product, a, b, sums, through)
        given_whole(kernel, sums, size, c)
        return
    if size == 0 or count(product.depth) == 0:
        cleared(kernel, c, size)
        return
    outer = count(product.batch) * count(product.depth)
    a = readable(kernel, arithmetic, a, outer * count(product.rows), through[0])
    b = readable(kernel, arithmetic, b, outer * count(product.columns), through[1])
    slices = slices_of(arithmetic, product, c)
    if slices > 1:
        a, b = made_whole(kernel, a, outer * count(product.rows)), made_whole(kernel, b, outer * count(product.columns))
        parts = new_array(kernel, arithmetic.dtype, slices * size)
        multiply(kernel, sliced(product, slices), a, b, parts)
        add_slices(kernel, arithmetic, slices, parts, size, c)
        return
    # a row times a matrix is the matrix, transposed, times a column
    has_few = has_few_rows(arithmetic, product, a, b)
    is_by_tiles = has_few or is_tiled(arithmetic, product, a, b)
    is_row = not is_by_tiles and (count(product.rows) == 1 or is_few_vectors(arithmetic, product.transposed, b))
    if is_row or (has_few and is_better_turned(product, a, b)):
        product, a, b = product.transposed, b, a
    if is_by_tiles:
        strategy, why = few_rows if has_few else tiled, f"the processor multiplies tiles of {a.dtype.name}"
    else:
        strategy, why = _strategy(arithmetic, product, a, b)
    chosen(_MEANING[strategy], why)
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


def _gives_sums(arithmetic: Arithmetic, product: Product, a: Array, b: Array, c: Array) -> bool:
    """True for products whose sums go to an epilogue from where a cache has them."""
    is_by_tiles = is_tiled(arithmetic, product, a, b) and not has_few_rows(arithmetic, product, a, b)
    return is_by_tiles and c.dtype is arithmetic.dtype and slices_of(arithmetic, product, c) == 1


def _widened(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, size: int) -> Array:
    """The left operand in a type that its scalars are read of where they lie, if it would be packed many times else."""
    if a.is_made or a.dtype.bytes >= arithmetic.dtype.bytes or arithmetic.pack_factor > 1:
        return a
    copy = Array(a.kind, a.number, arithmetic.dtype)
    if not has_scalars_in_rows(arithmetic, product, copy) or count(product.columns) < _REPACKED:
        return a
    return a if count(product.rows) > count(product.columns) else widened_array(kernel, arithmetic, a, size)


_MEANING: dict[Callable, str] = {
    multiply_vector: "row by row, a matrix times few vectors",
    direct: "tiles in registers, of operands that are read where they lie",
    blocked: "tiles in registers, of blocks of the operands that are packed first",
    tiled: "AMX's tile registers",
    few_rows: "AMX's tile registers, the matrix read once",
}


def _strategy(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> tuple[Callable, str]:
    """What multiplies by vectors, and why that."""
    if is_vector_product(product):
        return multiply_vector, "one of the operands is a vector"
    if is_few_vectors(arithmetic, product, a):
        return (
            multiply_vector,
            f"{number(count(product.columns))} columns: the matrix is read once, which takes the time",
        )
    if _is_better_in_pairs(arithmetic, product, a, b):
        return (
            blocked,
            f"the processor adds pairs of products of {a.dtype.name}, for which operands are put side by side",
        )
    if _evicts_itself(arithmetic, product, a):
        return blocked, "the left operand has rows side by side and its depth pages apart, which evict one another"
    in_place, why = _is_read_in_place(arithmetic, product, b)
    return (direct if in_place else blocked), f"the right operand {why}"


def _evicts_itself(arithmetic: Arithmetic, product: Product, a: Array) -> bool:
    """True where tiles read a few rows' scalars of lines that share few places of the caches, as they lie pages apart.

    They are gone until the next tile reads what is beside in the same lines.
    """
    row, depth, caches = inner(product.rows), inner(product.depth), arithmetic.target.caches
    apart = depth.a * a.dtype.bytes
    if a.is_made or row.a != 1 or row.size * a.dtype.bytes <= LINE or depth.size * apart <= caches.second:
        return False
    return apart % caches.period == 0


def _is_better_in_pairs(arithmetic: Arithmetic, product: Product, a: Array, b: Array) -> bool:
    """True when two products can be added at once, and there are enough of them to pack the operands for."""
    if in_pairs(arithmetic, a.dtype, b.dtype).pack_factor == 1:
        return False
    return count(product.rows) >= _PAIRED_ROWS and count(product.depth) >= _PAIRED_DEPTH


def _takes_lines(strategy: Callable, arithmetic: Arithmetic, product: Product, array: Array, operand: str) -> bool:
    """True when an operand can be made as it is multiplied."""
    if arithmetic.parts > 1 or strategy in (direct, tiled):
        return False
    if strategy is few_rows:
        return takes_lines(product, operand)
    return operand == "a" if strategy is multiply_vector else has_lines(product, operand)


def _is_read_in_place(arithmetic: Arithmetic, product: Product, b: Array) -> tuple[bool, str]:
    """Whether it costs less to read the right operand where it lies than to rearrange it first, and why."""
    column, size = inner(product.columns), b.dtype.bytes
    if b.is_made:
        return False, "is computed as it is multiplied"
    if len(product.columns) > 1 or (column.size > 1 and (column.b, column.c) != (1, 1)):
        return False, "has columns that do not lie side by side in memory"
    nbytes = count(product.columns) * count(product.depth) * size
    caches = arithmetic.target.caches
    if nbytes <= caches.first:
        return True, f"fits the first cache, with {number(nbytes)} bytes"
    if count(product.rows) <= 4:
        return True, f"is met by {number(count(product.rows))} rows only, for which packing it would not pay"
    share = caches.second // _SHARE
    if nbytes > share:
        return (
            False,
            f"has {number(nbytes)} bytes, more than the {share} that are read from the second cache fast enough",
        )
    if b.dtype is not arithmetic.dtype:
        return False, f"is {b.dtype.name}, and sums are {arithmetic.dtype.name}"
    if count(product.depth) > _DEPTH:
        return False, f"has {number(count(product.depth))} terms for each sum, more than {_DEPTH}"
    if all(x.b * size <= _ROW_BYTES for x in product.depth):
        return True, f"has {number(nbytes)} bytes, which are read from the second cache fast enough"
    return False, f"has rows more than {_ROW_BYTES} bytes apart, which evict one another from the first cache"
