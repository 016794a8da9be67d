"""Small products: the operands are read where they lie."""

from __future__ import annotations

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, offset
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, at_most, fitting, nest, rolled, spaced
from xloom.llvm.types import I64, element_pointer, i64
from xloom.llvm.vectors import first_lanes


def direct(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b_: Array, c: Array) -> None:
    """One phase; its items are tiles of rows. The columns are one axis, adjacent in `b` and in `c`.

    The last tile of an axis begins early enough to end with it, and does some of its neighbour's work again.
    """
    row, column = inner(product.rows), inner(product.columns)
    tile = fitting(arithmetic, row.size, column.size, arithmetic.few_sums)
    tiles = -(-row.size // tile.rows)
    outer = (*product.batch, *product.rows[:-1])
    items = (*outer, Axis(tiles, 0, 0, 0))
    depth = [(x.size, (x.a, x.b)) for x in product.depth]
    cost = 2 * tile.rows * column.size * count(product.depth)
    with kernel.phase(count(items), grain(cost, arithmetic)) as phase:
        b = phase.b
        pa, pb, pc = a.pointer(phase), b_.pointer(phase), c.pointer(phase)
        sums = Sums(b, tile)
        lefts = [min(v * tile.lanes, max(0, column.size - tile.lanes)) for v in range(tile.vectors)]
        mask = first_lanes(tile.lanes, column.size) if column.size < tile.lanes else None
        with rolled(b, phase.begin, phase.end, name="tile") as item:
            position = digits(b, items, item)
            begin = at_most(b, b.mul(position[-1], i64(tile.rows)), row.size - tile.rows)
            starts = {
                name: b.add(offset(b, outer, position[:-1], name), b.mul(begin, i64(row.stride(name))))
                for name in "abc"
            }
            with rolled(b, 0, column.size, tile.columns, name="column") as j:
                left = at_most(b, j, max(0, column.size - tile.columns))
                sums.clear(b)

                def body(at: list) -> None:
                    # a pointer, and constant distances from it: processors add these as they load
                    left, right = element_pointer(b, pa, a.dtype, at[0]), element_pointer(b, pb, b_.dtype, at[1])
                    scalars = spaced(b, left, a.dtype, row.a)
                    sums.multiply(
                        b,
                        lambda r: arithmetic.load(b, scalars(r), a.dtype, I64(0), 1),
                        lambda v: arithmetic.load(b, right, b_.dtype, i64(lefts[v]), tile.lanes, mask),
                    )

                nest(b, depth, [starts["a"], b.add(starts["b"], left)], body)
                lines = spaced(b, element_pointer(b, pc, c.dtype, b.add(starts["c"], left)), c.dtype, row.c)
                for r in range(tile.rows):
                    for v in range(tile.vectors):
                        arithmetic.store(b, lines(r), c.dtype, i64(lefts[v]), sums.get(b, r, v), mask)
