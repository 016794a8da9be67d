"""A matrix times one vector, or some, at the speed of memory: each element of the matrix is read once."""

from __future__ import annotations

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Product, count, inner
from xloom.cpu.kernels.matmul.dots import Dots
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.rank_updates import RankUpdates
from xloom.cpu.kernels.matmul.strips import Strips
from xloom.hlo.dtype import bf16
from xloom.llvm.target import Target

_VERY_FEW = 4
"""Vectors whose multiples the registers hold."""
_FEW_STRIPS, _FEW_WIDE_STRIPS = 13, 17
"""Vectors that are few, as to strips, for 16 registers and for 32: of more, operands are better packed."""
_FEW_FLOATS, _FEW_WIDE_FLOATS = 25, 49
"""The same where adding a product is one instruction."""
_FEW, _FEW_DOTS, _FEW_NARROW_DOTS = 9, 33, 17
"""The same as to sums along the depth: of any type; of elements of 32 bits; of narrower ones, in 32 registers. Of more,
the registers or the caches would not hold what they need."""
_LONG = 4
"""Places of an adjacent depth for the square of the number of columns: in shorter sums, most of the time goes into
adding lanes at the end, one column after another, and the packed product takes less."""
_LONG_NARROW = 32
"""The same for each column, of elements that the packed product multiplies several at once."""
_LONG_GROUPS = 512
"""The same of any number of columns from `_FEW` on."""
_SHARE = 2
"""Of the second cache, so many columns may take one of so many parts: each few rows of the matrix meet all."""
_WIDEST = 1024
"""Rows of the matrix that are few where they are adjacent: a strip of results would be too short."""
_LARGE = 1
"""Of the second cache, what a matrix takes that fewer vectors than `_FEW_STRIPS` do not read often enough to be
rearranged."""


def is_vector_product(product: Product) -> bool:
    """True when `multiply_vector` does it: a single column, and the rows or the depth adjacent."""
    row, depth = inner(product.rows), inner(product.depth)
    return count(product.columns) == 1 and ((depth.a == 1 and depth.b == 1) or (row.a == 1 and row.c == 1))


def is_few_vectors(arithmetic: Arithmetic, product: Product, matrix: Array) -> bool:
    """True when `multiply_vector` does it: a large matrix, its rows or a long depth adjacent, and a few columns."""
    target, row, depth, columns = arithmetic.target, inner(product.rows), inner(product.depth), product.columns
    if len(columns) != 1:
        return False
    is_long = depth.a == depth.b == 1 and _is_long(product, matrix, target)
    few, few_wide = (_FEW_FLOATS, _FEW_WIDE_FLOATS) if arithmetic.has_plain_floats else (_FEW_STRIPS, _FEW_WIDE_STRIPS)
    few = few_wide if target.registers.count == 32 else few
    if not is_long and ((row.a, row.c) != (1, 1) or row.size < _WIDEST or count(columns) >= few):
        return False
    return row.size * count(product.depth) * matrix.dtype.bytes >= _LARGE * target.caches.second


def _is_long(product: Product, matrix: Array, target: Target) -> bool:
    depth, vectors = inner(product.depth).size, count(product.columns)
    if vectors < _FEW:
        return depth >= vectors * (_LONG * vectors if matrix.dtype.bytes >= 4 else _LONG_NARROW)
    if vectors >= _few_dots(matrix, target):
        return False
    return depth >= _LONG_GROUPS and vectors * count(product.depth) * 4 <= target.caches.second // _SHARE


def _few_dots(matrix: Array, target: Target) -> int:
    """How many vectors are no longer few for sums along the depth that a group of them takes at a time."""
    # rows that are made are not made again for each group, and what is multiplied in pairs is better packed
    if matrix.is_made or matrix.dtype.bits < 16 or (matrix.dtype is bf16 and target.has_bfloat_products):
        return _FEW
    if matrix.dtype.bits > 16:
        return _FEW_DOTS
    return _FEW_NARROW_DOTS if target.registers.count == 32 else _FEW


def multiply_vector(
    kernel: Kernel, arithmetic: Arithmetic, product: Product, matrix: Array, vector: Array, result: Array
) -> None:
    """One phase; its items are tiles of rows, or strips of the result."""
    depth = inner(product.depth)
    by_strips = Strips if count(product.columns) <= _VERY_FEW else RankUpdates
    strategy = Dots if depth.a == depth.b == 1 else by_strips
    strategy(kernel, arithmetic, product, matrix, vector, result).emit()
