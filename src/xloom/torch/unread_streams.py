"""What Dynamo has functions look up at each call where there is an accelerator, as the device `xla` is one."""

from __future__ import annotations

import sys
from typing import Any

from torch.fx import GraphModule

_TABLE = "torch._dynamo.graph_bytecode_inputs"
"""Dynamo's module of objects that a function gives its graph by their numbers."""


def forget_current_stream(graph: GraphModule) -> None:
    """Has the function of a graph of the host's tensors not look the device's stream up, which takes 4 µs.

    Dynamo asks for it before it knows whether anything will read it.
    """
    table: Any = sys.modules.get(_TABLE)
    constructors = getattr(table, "index_to_bytecode_constructor", None)
    if constructors is None or list(constructors) != [getattr(table, "CURRENT_STREAM_INDEX", None)]:
        return
    if not any(_reads_objects(node.target, table) for node in graph.graph.nodes):
        constructors.clear()


def _reads_objects(target: Any, table: Any) -> bool:
    return getattr(target, "__module__", "") == table.__name__ or "streams" in str(getattr(target, "namespace", ""))
