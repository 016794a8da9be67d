"""Arguments that a graph writes: their new values are made in their memory; results that are views of them.

What is saved of them for backward is what they were: the partitioner takes it that arguments stay as they are.

Where sizes are symbolic, AOTAutograd makes the user's views by strides and by the place in memory that a result has. In
the memory of a new value that is another place: so these are views of the arguments, whose memory has the new values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch.fx import GraphModule, Node

from xloom.hlo.module import InputOutputAlias
from xloom.torch.fx_graph import Translated
from xloom.torch.graph_memory import STRIDED, owner, viewed

_OF_ARGUMENT = (OutputType.alias_of_input, OutputType.is_input)


def in_place(translated: Translated) -> Translated:
    """The graph, whose program may make new values of arguments where the old ones lie.

    They stay as they are until all assertions are found to hold.
    """
    if not translated.written or translated.assertions:
        return translated
    module = translated.module.clone("")
    first = len(module.entry.root.shape.elements) - len(translated.written)
    module.config.input_output_alias = [
        InputOutputAlias((first + k,), translated.arguments.index(argument), ())
        for k, argument in enumerate(translated.written)
        if isinstance(argument, int) and argument in translated.arguments
    ]
    return replace(translated, module=module)


def old_values_saved(graph: GraphModule, metadata: Any, first: int) -> None:
    """Lets results from the `first` on be copies of arguments, where AOTAutograd says that these change."""
    (output,) = graph.graph.find_nodes(op="output")
    results: list[Any] = list(output.args[0])  # type: ignore[arg-type]
    arguments = graph.graph.find_nodes(op="placeholder")[len(metadata.tokens) :]
    changing = {node for node, told in zip(arguments, metadata.input_info, strict=False) if told.mutates_data}
    for place, saved in enumerate(results[first:], first):
        if isinstance(saved, Node) and owner(saved) in changing:
            with graph.graph.inserting_before(output):
                results[place] = graph.graph.call_function(torch.ops.aten.clone.default, (saved,))
            results[place].meta = dict(saved.meta)
    output.args = (tuple(results),)


def views_of_arguments(graph: GraphModule, metadata: Any) -> None:
    """Lets results that are views of an argument's new value be such views of the argument, by AOTAutograd's word."""
    if metadata.tokens:  # which come before the arguments
        return
    (output,) = graph.graph.find_nodes(op="output")
    results: list[Any] = list(output.args[0])  # type: ignore[arg-type]
    placeholders = graph.graph.find_nodes(op="placeholder")
    copied = {number: results[k] for k, number in enumerate(metadata.mutated_inp_runtime_indices)}
    writes = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    written = copied | {placeholders.index(node.args[0]): node.args[1] for node in writes}
    for place, told in enumerate(metadata.output_info, len(copied)):
        base, result = written.get(told.base_idx), results[place]
        if told.output_type in _OF_ARGUMENT and isinstance(base, Node) and _is_view_of(result, base):
            with graph.graph.inserting_before(output):
                results[place] = _replayed(graph, result, base, placeholders[told.base_idx])
    output.args = (tuple(results),)


def _is_view_of(node: Any, base: Node) -> bool:
    while isinstance(node, Node) and node is not base and node.target not in STRIDED:
        node = viewed(node)
    return node is base


def _replayed(graph: GraphModule, node: Node, base: Node, argument: Node) -> Node:
    """The view of an argument that a node is of `base`."""
    if node is base:
        return argument
    source = node.args[0]
    assert isinstance(source, Node)
    of = _replayed(graph, source, base, argument)
    return graph.graph.node_copy(node, lambda each: of if each is source else each)
