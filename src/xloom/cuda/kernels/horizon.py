"""How far each query of attention sees: a mask that leaves out all keys from some on, as causal ones do."""

from __future__ import annotations

from typing import NamedTuple

from xloom.codegen.loop_ir.index_numbers import index_expression
from xloom.codegen.loop_ir.nest import Store
from xloom.codegen.loop_ir.nodes import Constant, Node, Op
from xloom.cuda.kernels.product import Product


class Horizon(NamedTuple):
    """Query `q` sees keys up to `q + ahead`; the logits of others are `lowest`."""

    ahead: int
    lowest: float


def horizon_of(store: Store, scores: Product) -> Horizon | None:
    """What the last operator of logits says of it: a choice by where they are; None where that is something else."""
    node = store.node
    if not isinstance(node, Op) or node.opcode != "select" or not isinstance(node.operands[2], Constant):
        return None
    found = [ahead for each in _conjuncts(node.operands[0]) if (ahead := _ahead(each, store, scores)) is not None]
    return Horizon(min(found), float(node.operands[2].value)) if found else None


def _conjuncts(node: Node) -> list[Op]:
    """What has to hold all together."""
    if not isinstance(node, Op):
        return []
    return [each for o in node.operands for each in _conjuncts(o)] if node.opcode == "and" else [node]


def _ahead(node: Op, store: Store, scores: Product) -> int | None:
    """By how much a key that a comparison admits is further than its query, at most."""
    if node.opcode != "compare":
        return None
    left, right = (index_expression(operand) for operand in node.operands)
    if left is None or right is None:
        return None
    direction = node.operator["direction"]
    gap = {"GE": left - right, "GT": left - right - 1, "LE": right - left, "LT": right - left - 1}.get(direction)
    if gap is None:
        return None
    axes = {factor: (var.size, store.address.factor(var)) for var, factor in gap.terms}
    is_of_both = axes == {1: scores.output[1][0], -1: scores.output[2][0]} and len(gap.terms) == 2
    return gap.const if is_of_both and len(scores.output[1]) == 1 else None
