"""Weights of bf16 in the tiles that AMX multiplies, so that none are packed when a program runs.

`passes/product_tiling.py` says how they do.
"""

from __future__ import annotations

from collections.abc import Collection

from xloom.codegen.thresholds import FEW_ROWS
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import bf16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.llvm.target import process_target
from xloom.passes.narrow_operands import is_widened
from xloom.passes.product_tiling import SIDE, in_tiles, product_of_tiles
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.products_of_weights import order_of_weights, rewrite_products


def put_in_tiles(computation: Computation, static: Collection[int]) -> None:
    """Has products read weights that are computed of `static` parameters in tiles."""
    if not process_target().has_tiles:
        return
    rewrite_products(computation, static, ("dot", "convolution"), _in_tiles)


def _in_tiles(i: Instruction, rewriter: Rewriter) -> Instruction | None:
    if i.shape.dtype is not f32 or i.backend_config or not all(map(is_widened, i.operands)):
        return None
    x, w = (o.operands[0] for o in i.operands)
    order = order_of_weights(i)
    if order is None:
        return None
    depth, columns = (w.shape.dims[d] for d in order)
    rows = i.shape.size // columns
    if rows <= FEW_ROWS or any(n % SIDE or n == SIDE for n in (depth, columns)):
        return None
    make = rewriter.make
    left = make("reshape", array_shape(bf16, (rows, depth)), [x])
    first, second = sorted(order)
    matrix = make("reshape", array_shape(bf16, (w.shape.dims[first], w.shape.dims[second])), [w])
    tiles = in_tiles(rewriter, matrix, *((0, 1) if order[0] == first else (1, 0)))
    return product_of_tiles(rewriter, left, tiles, columns)
