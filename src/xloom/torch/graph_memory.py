"""Operators of graphs that speak of memory: of the array that has it, in the order in which torch would keep it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering import Graph, lower
from xloom.torch.lowering.creation import reinterpreted
from xloom.torch.lowering.linalg import BY_ORDER, in_columns
from xloom.torch.strides import dense_order, extent, inverse
from xloom.torch.traced_numbers import Known, hinted, written

aten = torch.ops.aten
_SCATTERS = aten.as_strided_scatter.default
STRIDED = frozenset([aten.as_strided.default, aten.as_strided_copy.default, _SCATTERS])
OF_MEMORY = STRIDED | BY_ORDER


def order_in_memory(node: Node) -> tuple[int, ...] | None:
    """The order of a value's dimensions in torch's memory, slowest first; None where it leaves gaps or is unknown."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return dense_order(*([hinted(n) for n in numbers] for numbers in (value.shape, value.stride())))


class Memory(NamedTuple):
    """Elements in the order of torch's memory."""

    flat: Instruction
    first: int
    """The place of the first one."""


def lowered(
    g: Graph,
    node: Node,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    values: Mapping[Node, Any],
    memories: dict[Node, Memory],
    known: Known,
) -> Any:
    """An operator of `OF_MEMORY`. `memories` are those that are larger than their values need."""
    source = node.args[0]
    assert isinstance(source, Node)
    assert isinstance(node.target, torch._ops.OpOverload)
    if node.target in BY_ORDER:
        matrices = source.meta["val"]
        in_rows = matrices.is_contiguous() or matrices.is_complex()
        return (lower if in_rows else in_columns)(g, node.target, args, kwargs)
    scatters = node.target is _SCATTERS
    base = owner(source) if not scatters or owner(source) in memories else source
    own = memories.get(base) or _memory(g, base, values, known)
    dtype, size = hlo_dtype(source.meta["val"].dtype), source.meta["val"].itemsize
    flat, first = own
    if dtype is not flat.shape.dtype:  # of a view as another dtype
        first = first * base.meta["val"].itemsize // size
        flat = reinterpreted(g, flat, dtype)
    *new, sizes, strides = args[1:4] if scatters else args[1:3]
    new = [_as_seen(g, each, source.meta["val"], base.meta["val"]) for each in new]
    offset = args[-1] if len(args) > 3 + scatters else kwargs.get("storage_offset")
    offset = place(source.meta["val"], known) if offset is None else offset
    start = offset - first
    places = extent(sizes, strides)
    if places and not 0 <= start <= flat.shape.size - places:
        raise LoweringError(f"{node.target} beyond memory", hint="call contiguous() first, or clone() the tensor")
    if not scatters:
        found = lower(g, aten.as_strided.default, (flat, sizes, strides, start), {})
        return _as_seen(g, found, base.meta["val"], source.meta["val"])
    after = lower(g, _SCATTERS, (flat, *new, sizes, strides, start), {})
    if base in memories:
        memories[node] = Memory(after, first)
        seen = node.meta["val"]
        start = place(seen, known) - first
        sizes, strides = (list(map(known, numbers)) for numbers in (seen.shape, seen.stride()))
        found = lower(g, aten.as_strided.default, (after, sizes, strides, start), {})
        return _as_seen(g, found, base.meta["val"], source.meta["val"])
    order, result = order_in_memory(base), values[base]
    assert order is not None
    return g.permute(g.reshape_to(after, [result.shape.dims[k] for k in order]), inverse(order))


def _as_seen(g: Graph, found: Instruction, by: torch.Tensor, other: torch.Tensor) -> Instruction:
    """What one tensor sees in memory, as another one sees it, which may be its conjugate or its negative."""
    if by.is_conj() != other.is_conj() and other.is_complex():
        found = lower(g, aten._conj.default, (found,), {})
    return g.negate(found) if by.is_neg() != other.is_neg() else found


def place(value: torch.Tensor, known: Known) -> int:
    """Where the first element is in memory."""
    found = known(value.storage_offset())
    if found is None:
        raise LoweringError("a tensor is read by strides at a place in memory that is not known", hint="clone() it")
    return found


def _memory(g: Graph, base: Node, values: Mapping[Node, Any], known: Known) -> Memory:
    order = order_in_memory(base)
    if order is None:
        raise LoweringError(f"as_strided of memory that has gaps, of {base}", hint="call contiguous() first")
    own: Instruction = values[base]
    return Memory(g.reshape_to(g.permute(own, order), (own.shape.size,)), place(base.meta["val"], known))


def reaches(nodes: Iterable[Node], known: Known) -> dict[Node, range]:
    """Values whose memory is read where they have no elements: between these, or beyond. And those bytes of it."""
    found: dict[Node, range] = {}

    def reached(base: Node, bytes: range) -> None:
        known = found.get(base, bytes)
        found[base] = range(min(known.start, bytes.start), max(known.stop, bytes.stop))

    for node in reversed(list(nodes)):  # what reads a memory comes before what makes it
        if node.target not in STRIDED:
            continue
        source = node.args[0]
        assert isinstance(source, Node)
        if node in found:  # a scatter copies all of the memory
            reached(owner(source), found[node])
        bytes = _bytes(node, known)
        if bytes is not None and (owner(source) in found or not _has_within(source, bytes, known)):
            reached(owner(source), bytes)
    return {node: bytes for node, bytes in found.items() if not _has_within(node, bytes, known)}


def _bytes(node: Node, known: Known) -> range | None:
    """What one of `STRIDED` reaches in memory; None where that is not known before the graph runs."""
    scatters = node.target is _SCATTERS
    source, *rest = node.args
    assert isinstance(source, Node)
    sizes, strides, *offsets = rest[1:] if scatters else rest
    offset = offsets[0] if offsets else node.kwargs.get("storage_offset")
    offset = source.meta["val"].storage_offset() if offset is None else offset
    numbers: Any = [[known(n) for n in each] for each in (sizes, strides, (offset,))]  # type: ignore[union-attr]
    sizes, strides, (start,) = numbers
    if None in (*sizes, *strides, start):
        return None
    size = source.meta["val"].itemsize
    return range(start * size, (start + extent(sizes, strides)) * size)


def _has_within(node: Node, bytes: range, known: Known) -> bool:
    """Whether all those bytes of memory are elements of a value."""
    if order_in_memory(node) is None:
        return not bytes
    value = node.meta["val"]
    start, size = place(value, known) * value.itemsize, math.prod(known(d) or hinted(d) for d in value.shape)
    return not bytes or (start <= bytes.start and bytes.stop <= start + size * value.itemsize)


def read_from_owners(graph: GraphModule) -> None:
    """Lets what is read by strides of a view's memory be read of the value that has it.

    as_strided(view(x), ...) = as_strided(x, ...): places are those of memory. A view alone has them not all.
    """
    for node in graph.graph.nodes:
        if node.target in STRIDED and node.target is not _SCATTERS:
            source, sizes, strides, *_ = node.args
            base, bytes = owner(source), _bytes(node, written)
            own, other = (each.meta["val"] for each in (source, base))
            same = (own.dtype, own.is_conj(), own.is_neg()) == (other.dtype, other.is_conj(), other.is_neg())
            if same and bytes is not None and not _has_within(source, bytes, hinted):
                node.args = (base, sizes, strides, bytes.start // own.itemsize)
                node.kwargs = {}


def owner(node: Node) -> Node:
    """The value whose memory a view is of."""
    while (source := viewed(node)) is not None:
        node = source
    return node


def viewed(node: Node) -> Node | None:
    """What a view, or one of several views, is of; None for other values."""
    view = node.args[0] if node.target is operator.getitem else node
    if not isinstance(view, Node) or not isinstance(view.target, torch._ops.OpOverload) or not view.target.is_view:
        return None
    first = view.args[0]
    assert isinstance(first, Node)
    return first
