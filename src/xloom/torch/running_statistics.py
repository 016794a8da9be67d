"""Running statistics of batch norms in training, which are written in the forward graph: the backward one reads none.

Torch refuses a backward graph that is given what they were before, as that of a checkpoint would be, which computes
norms once more.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule

aten = torch.ops.aten
_OF_BATCH = 3  # results of the batch alone; the new running statistics follow
_RUNNING = slice(3, 5)  # among the arguments of the gradient


def only_written(joint: GraphModule) -> None:
    """Lets neither gradients of norms depend on running statistics, nor results that are computed once more."""
    graph = joint.graph
    for node in graph.find_nodes(op="call_function", target=aten.native_batch_norm_backward.default):
        if node.args[7]:
            arguments = list(node.args)
            arguments[_RUNNING] = None, None
            node.args = tuple(arguments)
    for node in graph.find_nodes(op="call_function", target=aten._native_batch_norm_legit_functional.default):
        values, weight, bias, _, _, training, momentum, eps = node.args
        if not training or "recompute" not in node.meta:
            continue
        with graph.inserting_before(node):
            arguments = (values, weight, bias, True, momentum, eps)
            alone = graph.call_function(aten._native_batch_norm_legit.no_stats, arguments)
        alone.meta = node.meta | {"val": node.meta["val"][:_OF_BATCH]}
        for user in list(node.users):
            if user.args[1] < _OF_BATCH:
                user.replace_input_with(node, alone)
