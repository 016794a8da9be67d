"""Products whose right operand is weights: which they are, in what order theirs lie, and others in their place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.division import computed_of

Rule = Callable[[Instruction, Rewriter], Instruction | None]
"""Another product with the same elements in the same order; None where it is better as it is."""


def rewrite_products(computation: Computation, static: Collection[int], opcodes: Collection[str], rule: Rule) -> None:
    """Applies `rule` to the products of these opcodes of which the right operand alone is computed of `static`."""
    weights, rewriter = computed_of(computation, static), Rewriter(computation)
    for i in computation.post_order():
        if i.opcode not in opcodes or i.operands[1] not in weights or i.operands[0] in weights:
            continue
        rewriter.fresh.clear()
        product = rule(i, rewriter)
        if product is not None:
            new = rewriter.make("reshape", i.shape, [product])
            for made in rewriter.fresh:
                made.metadata = i.metadata
            i.replace_all_uses_with(new)


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
