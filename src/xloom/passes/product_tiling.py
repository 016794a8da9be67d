"""Right operands of products in the tiles that AMX multiplies, so that no kernel packs them again for each product.

A product says so by its dimensions: `[pairs of tiles, steps of the depth, 2, lines, columns, 2]`, after those of
batches, of which it sums up the second, the fourth and the last. What they mean is the same on every backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.dtype import bf16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable
from xloom.passes.row_region import BLOCK_BYTES, LEAST_BYTES, LEAST_ROWS, RowRegion, is_worth_dividing

SIDE = 32
"""Columns of a pair of tiles, and elements of the depth of both."""
_LINES, _PACKED = 16, 2
"""Packed elements of a tile's depth, and elements of each."""


@register
@dataclass(frozen=True)
class ProductTiling(Pass):
    """Puts the right operands of two products in tiles where blocks of rows go through both, as in attention.

    The array between the two has `least` bytes, and a block at most `block`, and at least `rows` rows.
    """

    least: int = LEAST_BYTES
    block: int = BLOCK_BYTES
    rows: int = LEAST_ROWS

    name = "product-tiling"
    opcodes = ("dot",)

    def run(self, module: Module) -> bool:
        """See the class."""
        found: set[Instruction] = set()

        def tiled(i: Instruction, rw: Rewriter) -> Instruction | None:
            return dot_of_tiles(rw, i) if i in found else None

        for i in module.instructions:
            if i.opcode == "dot" and is_worth_dividing(i.operands[0], self.least):
                region = RowRegion(i, 0, self.block, self.rows)
                if region.is_worth_it and len(region.dots) == 2 and all(map(may_be_in_tiles, region.dots)):
                    found.update(region.dots)
        rules = RuleTable()
        rules("dot")(tiled)
        return bool(found) and expand_ops(module, rules)


def is_of_tiles(dot: Instruction) -> bool:
    """True where the right operand is in tiles."""
    batch = len(dot["rhs_batch_dims"])
    return tuple(dot["rhs_contracting_dims"]) == tuple(batch + k for k in (1, 3, 5))


def may_be_in_tiles(dot: Instruction) -> bool:
    """True for sums in f32 of bf16, and of a right operand that has more than a pair of tiles each way."""
    if dot.opcode != "dot" or dot.shape.dtype is not f32 or dot.backend_config or dot["algorithm"] != "unset":
        return False
    if any(o.shape.dtype is not bf16 or o.shape.is_dynamic for o in dot.operands):
        return False
    if len(dot["lhs_contracting_dims"]) != 1 or dot.operands[1].shape.rank != len(dot["rhs_batch_dims"]) + 2:
        return False
    batch = dot["rhs_batch_dims"]
    return all(n > SIDE for d, n in enumerate(dot.operands[1].shape.dims) if d not in batch)


# dot(x, y) == reshape(dot(split(x), tiles(y)))
def dot_of_tiles(rw: Rewriter, dot: Instruction) -> Instruction:
    """The same as a dot for which `may_be_in_tiles` is true."""
    left, right = dot.operands
    (summed,), (depth,) = dot["lhs_contracting_dims"], dot["rhs_contracting_dims"]
    batch = dot["rhs_batch_dims"]
    (column,) = (d for d in range(right.shape.rank) if d != depth and d not in batch)
    rows = [d for d in range(left.shape.rank) if d != summed and d not in dot["lhs_batch_dims"]]
    order = (*dot["lhs_batch_dims"], *rows, summed)
    if order != tuple(range(left.shape.rank)):
        shape = array_shape(bf16, [left.shape.dims[d] for d in order])
        left = rw.make("transpose", shape, [left], dimensions=order)
    return product_of_tiles(rw, left, in_tiles(rw, right, depth, column, batch), right.shape.dims[column])


def in_tiles(rw: Rewriter, w: Instruction, depth: int, column: int, batch: Sequence[int] = ()) -> Instruction:
    """A right operand in tiles, filled up with zeros, after its dimensions `batch`."""
    sizes = list(w.shape.dims)
    for d in (depth, column):
        sizes[d] = -(-sizes[d] // SIDE) * SIDE
    w = _padded(rw, w, sizes)
    parts = {depth: (sizes[depth] // SIDE, _LINES, _PACKED), column: (sizes[column] // SIDE, 2, _LINES)}
    dims: list[int] = []
    place: dict[int, int] = {}
    for d, n in enumerate(sizes):
        place[d] = len(dims)
        dims += parts.get(d, (n,))
    step, pair = place[depth], place[column]
    order = (*(place[d] for d in batch), pair, step, pair + 1, step + 1, pair + 2, step + 2)
    split = rw.make("reshape", array_shape(bf16, dims), [w])
    return rw.make("transpose", array_shape(bf16, [dims[d] for d in order]), [split], dimensions=order)


def product_of_tiles(rw: Rewriter, left: Instruction, tiles: Instruction, columns: int) -> Instruction:
    """The sums (f32) of a left operand, batches first and depth last, and a right one in tiles, of so many columns."""
    batch = tiles.shape.rank - 6
    pairs, steps = tiles.shape.dims[batch : batch + 2]
    left = _padded(rw, left, [*left.shape.dims[:-1], steps * SIDE])
    rows = left.shape.dims[:-1]
    left = rw.make("reshape", array_shape(bf16, (*rows, steps, _LINES, _PACKED)), [left])
    batches = tuple(range(batch))
    product = rw.make(
        "dot",
        array_shape(f32, (*rows, pairs, 2, _LINES)),
        [left, tiles],
        lhs_contracting_dims=tuple(len(rows) + k for k in range(3)),
        rhs_contracting_dims=tuple(batch + k for k in (1, 3, 5)),
        lhs_batch_dims=batches,
        rhs_batch_dims=batches,
    )
    whole = rw.make("reshape", array_shape(f32, (*rows, pairs * SIDE)), [product])
    if columns == pairs * SIDE:
        return whole
    cut = tuple(SliceDimension(0, n, 1) for n in (*rows, columns))
    return rw.make("slice", array_shape(f32, (*rows, columns)), [whole], slice=cut)


def _padded(rw: Rewriter, x: Instruction, sizes: list[int]) -> Instruction:
    if list(x.shape.dims) == sizes:
        return x
    padding = tuple(PaddingDimension(0, m - n, 0) for n, m in zip(x.shape.dims, sizes, strict=True))
    zero = rw.constant(array_shape(x.shape.dtype, ()), 0)
    return rw.make("pad", array_shape(x.shape.dtype, sizes), [x, zero], padding=padding)
