"""Weights of bf16 in the tiles that AMX multiplies, so that none are packed when a program runs.

`passes/product_tiling.py` says how they do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xloom.codegen.thresholds import FEW_ROWS
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import bf16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.llvm.target import process_target
from xloom.passes.narrow_operands import is_widened
from xloom.passes.product_tiling import SIDE, in_tiles, product_of_tiles
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.division import computed_of


def put_in_tiles(computation: Computation, static: Collection[int]) -> None:
    """Has products read weights that are computed of `static` parameters in tiles."""
    if not process_target().has_tiles:
        return
    weights, rewriter = computed_of(computation, static), Rewriter(computation)
    for i in computation.post_order():
        if i.opcode in ("dot", "convolution") and i.operands[1] in weights and i.operands[0] not in weights:
            new = _in_tiles(i, rewriter)
            if new is not None:
                i.replace_all_uses_with(new)


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
    rewriter.fresh.clear()
    left = make("reshape", array_shape(bf16, (rows, depth)), [x])
    first, second = sorted(order)
    matrix = make("reshape", array_shape(bf16, (w.shape.dims[first], w.shape.dims[second])), [w])
    tiles = in_tiles(rewriter, matrix, *((0, 1) if order[0] == first else (1, 0)))
    product = product_of_tiles(rewriter, left, tiles, columns)
    for made in rewriter.fresh:
        made.metadata = i.metadata
    return make("reshape", i.shape, [product])


def order_of_weights(i: Instruction) -> Sequence[int] | None:
    """Which dimension of the weights is summed up, and which is one of the result's, the last; None for others."""
    if i.opcode == "dot":
        plain = not i["lhs_batch_dims"] and i["algorithm"] == "unset" and i.operands[1].shape.rank == 2
        if not plain or tuple(i["lhs_contracting_dims"]) != (i.operands[0].shape.rank - 1,):
            return None
        (depth,) = i["rhs_contracting_dims"]
        return depth, 1 - depth
    labels, rank = i["dim_labels"], i.shape.rank
    if (labels.input_batch, labels.input_feature, labels.output_batch, labels.output_feature) != (0, rank - 1) * 2:
        return None
    if labels.input_spatial != labels.output_spatial or max(i["feature_group_count"], i["batch_group_count"]) > 1:
        return None
    # a window of one place, which meets each place of the input once
    if i.operands[0].shape.dims[:-1] != i.shape.dims[:-1] or any(d.size > 1 or d.padding_low for d in i["window"]):
        return None
    return labels.kernel_input_feature, labels.kernel_output_feature
