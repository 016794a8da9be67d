"""Operators of graphs that speak of memory: of the array that has it, in the order in which torch would keep it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering import Graph, lower
from xloom.torch.lowering.creation import reinterpreted
from xloom.torch.lowering.linalg import BY_ORDER, in_columns
from xloom.torch.strides import dense_order, inverse

aten = torch.ops.aten
_SCATTERS = aten.as_strided_scatter.default
OF_MEMORY = frozenset([aten.as_strided.default, aten.as_strided_copy.default, _SCATTERS]) | BY_ORDER


def order_in_memory(node: Node) -> tuple[int, ...] | None:
    """The order of a value's dimensions in torch's memory, slowest first; None where it leaves gaps or is unknown."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return dense_order(*([_known(n) for n in numbers] for numbers in (value.shape, value.stride())))


def lowered(g: Graph, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any], values: Mapping[Node, Any]) -> Any:
    """An operator of `OF_MEMORY`."""
    source = node.args[0]
    assert isinstance(source, Node)
    assert isinstance(node.target, torch._ops.OpOverload)
    if node.target in BY_ORDER:
        matrices = source.meta["val"]
        in_rows = matrices.is_contiguous() or matrices.is_complex()
        return (lower if in_rows else in_columns)(g, node.target, args, kwargs)
    scatters = node.target is _SCATTERS
    base = source if scatters else owner(source)
    order = order_in_memory(base)
    if order is None:
        raise LoweringError(f"{node.target} of memory that has gaps", hint="call contiguous() first")
    own: Instruction = values[base]
    memory = g.reshape_to(g.permute(own, order), (own.shape.size,))
    first = _known(base.meta["val"].storage_offset())
    dtype = hlo_dtype(source.meta["val"].dtype)
    if dtype is not own.shape.dtype:  # of a view as another dtype
        first = first * base.meta["val"].itemsize // source.meta["val"].itemsize
        memory = reinterpreted(g, memory, dtype)
    *new, sizes, strides = args[1:4] if scatters else args[1:3]
    offset = args[-1] if len(args) > 3 + scatters else kwargs.get("storage_offset")
    offset = _known(source.meta["val"].storage_offset()) if offset is None else offset
    start = offset - first
    if not scatters:
        return lower(g, aten.as_strided.default, (memory, sizes, strides, start), {})
    written = lower(g, _SCATTERS, (memory, *new, sizes, strides, start), {})
    return g.permute(g.reshape_to(written, [own.shape.dims[k] for k in order]), inverse(order))


def owner(node: Node) -> Node:
    """The value whose memory a view is of."""
    while True:
        view = node.args[0] if node.target is operator.getitem else node  # one of several views
        if not isinstance(view, Node) or not _is_view(view):
            return node
        first = view.args[0]
        assert isinstance(first, Node)
        node = first


def _is_view(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _known(number: Any) -> int:
    """A size as it was when the graph was traced."""
    return number.node.hint if isinstance(number, torch.SymInt) else number
