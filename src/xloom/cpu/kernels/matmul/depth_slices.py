"""Long sums of small results: threads take slices of the depth, whose sums are added at the end."""

from __future__ import annotations

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, Product, count
from xloom.cpu.kernels.matmul.operands import Array, by_vectors
from xloom.llvm.types import i64

_MOST = 16
"""Slices: as many whatever the threads are, for the same bits."""
_LEAST_TERMS = 1024
"""Of a slice's sums."""
_WORK = 1 << 22
"""Multiply-adds from which on two more phases pay."""
_SIDE = 32
"""Rows or columns that threads take anyway, and of a block of a result: of `_MOST` of either, the depth stays whole."""


def slices_of(arithmetic: Arithmetic, product: Product, c: Array) -> int:
    """How many slices the depth is cut into: 1 where it is not."""
    rows, columns = count(product.rows), count(product.columns)
    size = count(product.batch) * rows * columns
    if not arithmetic.stores(c.dtype) or size >= _MOST * _SIDE**2 or count(product.batch) >= _MOST:
        return 1
    if rows >= _MOST * _SIDE or columns >= _MOST * _SIDE:
        return 1
    if count(product.depth) < 2 * _LEAST_TERMS or size * count(product.depth) < _WORK:
        return 1
    most, outer = count(product.depth) // _LEAST_TERMS, product.depth[0].size
    return next((n for n in range(_MOST, 1, -1) if n <= most and outer % n == 0), 1)


def sliced(product: Product, slices: int) -> Product:
    """c[batch, slice, ...] = sum over a slice of the depth: results of slices lie one after the other."""
    outer, *rest = product.depth
    size = count(product.batch) * count(product.rows) * count(product.columns)
    each = outer.size // slices
    axis = Axis(slices, outer.a * each, outer.b * each, size)
    return product._replace(batch=(*product.batch, axis), depth=(outer._replace(size=each), *rest))


def add_slices(kernel: Kernel, arithmetic: Arithmetic, slices: int, sums: Array, size: int, target: Array) -> None:
    """A phase that adds the `size` results of each slice, one slice after the other."""
    with by_vectors(kernel, arithmetic, size) as (phase, at, mask):
        b, lanes, total = phase.b, arithmetic.lanes, arithmetic.zero(arithmetic.lanes)
        for number in range(slices):
            here = b.add(at, i64(number * size))
            more = arithmetic.load(b, sums.pointer(phase), arithmetic.dtype, here, lanes, mask)
            total = arithmetic.add(b, total, more)
        arithmetic.store(b, target.pointer(phase), target.dtype, at, total, mask)
