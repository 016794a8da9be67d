"""Filters of bf16, in the order in which AMX reads them: what a feature of the output is summed of lies together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import bf16
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.llvm.target import process_target
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.division import computed_of

_FEATURES = 32
"""Of the input, that a row of a tile has: of other numbers AMX makes no tiles."""


def put_in_lines(computation: Computation, static: Collection[int]) -> None:
    """Has convolutions read filters of bf16, widened or not, that are computed of `static` parameters in lines."""
    if not process_target().has_tiles:
        return
    weights, rewriter = computed_of(computation, static), Rewriter(computation)
    for i in computation.post_order():
        if i.opcode == "convolution" and i.operands[1] in weights and not i.backend_config:
            new = _in_lines(i, rewriter)
            if new is not None:
                i.replace_all_uses_with(new)


def _in_lines(i: Instruction, rewriter: Rewriter) -> Instruction | None:
    (x, w), labels = i.operands, i["dim_labels"]
    narrow = w.operands[0] if w.opcode == "convert" else w
    if narrow.shape.dtype is not bf16 or max(i["feature_group_count"], i["batch_group_count"]) > 1:
        return None
    if narrow.shape.dims[labels.kernel_input_feature] % _FEATURES:
        return None
    order = (labels.kernel_output_feature, *labels.kernel_spatial, labels.kernel_input_feature)
    if order == tuple(range(len(order))):
        return None
    dims = [narrow.shape.dims[d] for d in order]
    lines = rewriter.make("transpose", array_shape(bf16, dims), [narrow], dimensions=order)
    new = rewriter.computation.add(i.clone([x, rewriter.converted(lines, w.shape.dtype)]))
    places = tuple(range(1, len(order) - 1))
    new["dim_labels"] = replace(
        labels, kernel_output_feature=0, kernel_spatial=places, kernel_input_feature=len(order) - 1
    )
    return new
