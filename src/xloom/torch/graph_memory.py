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
    offset = place(source, known) if offset is None else offset
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
        start = place(node, known) - first
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


def place(node: Node, known: Known) -> int:
    """Where the first element is in memory."""
    base, value = owner(node), node.meta["val"]
    found = known(value.storage_offset())
    if found is None:
        raise LoweringError("a tensor is read by strides at a place in memory that is not known", hint="clone() it")
    if base.target is not _SCATTERS:
        return found
    # torch traces what was written by strides as if it began a memory, and goes on to give places of what it was before
    source, traced = base.args[0], base.meta["val"]
    assert isinstance(source, Node)
    before = (
        place(source, known) * source.meta["val"].itemsize - int(known(traced.storage_offset()) or 0) * traced.itemsize
    )
    return found + before // value.itemsize


def _memory(g: Graph, base: Node, values: Mapping[Node, Any], known: Known) -> Memory:
    order = order_in_memory(base)
    if order is None:
        raise LoweringError(f"as_strided of memory that has gaps, of {base}", hint="call contiguous() first")
    own: Instruction = values[base]
    return Memory(g.reshape_to(g.permute(own, order), (own.shape.size,)), place(base, known))


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
            if node.target is _SCATTERS:  # whose elements are read of what it has written
                reached(owner(source), _elements(source, known))
    return {node: bytes for node, bytes in found.items() if not _has_within(node, bytes, known)}


def _bytes(node: Node, known: Known) -> range | None:
    """What one of `STRIDED` reaches in memory; None where that is not known before the graph runs."""
    scatters = node.target is _SCATTERS
    source, *rest = node.args
    assert isinstance(source, Node)
    sizes, strides, *_ = rest[1:] if scatters else rest
    numbers: Any = [[known(n) for n in each] for each in (sizes, strides, (place_by_strides(node, known),))]  # type: ignore[union-attr]
    sizes, strides, (start,) = numbers
    if None in (*sizes, *strides, start):
        return None
    size = source.meta["val"].itemsize
    return range(start * size, (start + extent(sizes, strides)) * size)


def _elements(node: Node, known: Known) -> range:
    """The bytes of memory from a value's first element to its last."""
    value = node.meta["val"]
    sizes, strides = ([known(n) or hinted(n) for n in numbers] for numbers in (value.shape, value.stride()))
    start = place(node, known)
    return range(start * value.itemsize, (start + extent(sizes, strides)) * value.itemsize)


def _offset(node: Node) -> Any:
    """The place that one of `STRIDED` is given; None for that of its operand."""
    given = node.args[3 + (node.target is _SCATTERS) :]
    return given[0] if given else node.kwargs.get("storage_offset")


def place_by_strides(node: Node, known: Known) -> Any:
    """Where the first element is that one of `STRIDED` reads or writes: its operand's, if it names none."""
    source, offset = node.args[0], _offset(node)
    assert isinstance(source, Node)
    return place(source, known) if offset is None else offset


def _has_within(node: Node, bytes: range, known: Known) -> bool:
    """Whether all those bytes of memory are elements of a value."""
    if order_in_memory(node) is None:
        return not bytes
    value = node.meta["val"]
    start, size = place(node, known) * value.itemsize, math.prod(known(d) or hinted(d) for d in value.shape)
    return not bytes or (start <= bytes.start and bytes.stop <= start + size * value.itemsize)


def places_told(nodes: Iterable[Node]) -> set[Node]:
    """Values in whose memory places are told by numbers, not from where a tensor begins."""
    return {_first_written(node) for node in nodes if node.target in STRIDED and _offset(node) is not None}


def writes_by_strides(value: Any, argument: Node) -> list[Node]:
    """What an argument's new value is made by, first to last, where nothing else writes it; else none."""
    found: list[Node] = []
    while isinstance(value, Node) and value.target is _SCATTERS:
        found.insert(0, value)
        value = value.args[0]
    return found if value is argument else []


def check_writes(nodes: Iterable[Node], written: Mapping[Node, Any], known: Known) -> None:
    """Raises LoweringError where memory of arguments that change is not what the graph says of it.

    `written` has their new values. What is written between an argument's elements, or beyond, is in no value that is
    computed of it; and a new value lies as torch would lay out one of its own.
    """
    kept = {node for argument, value in written.items() for node in writes_by_strides(value, argument)}
    before = {argument: _ancestors(value) for argument, value in written.items() if isinstance(value, Node)}
    for node in nodes:
        if node.target not in STRIDED:
            continue
        source = node.args[0]
        assert isinstance(source, Node)
        base, bytes = owner(source), _bytes(node, known)
        loses = node.target is _SCATTERS and node not in kept and _first_written(base) in written
        if loses and bytes is not None and not _has_within(source, bytes, known):
            raise LoweringError(
                f"{node.target} writes memory beyond a tensor that is written otherwise, too",
                hint="write by strides of the tensor that has all of it",
            )
        for argument, values in before.items():
            if base in values and base.op != "placeholder" and not _lies_as(base, argument, known):
                raise LoweringError(
                    f"{node.target} of an argument that has been written",
                    hint="write by strides of the tensor that has all of it, or clone() it",
                )


def _ancestors(node: Node) -> set[Node]:
    found, left = {node}, [node]
    while left:
        new = set(left.pop().all_input_nodes) - found
        found |= new
        left += new
    return found


def _first_written(node: Node) -> Node:
    """The value whose memory it is, before anything was written by strides."""
    node = owner(node)
    while node.target in STRIDED:
        source = node.args[0]
        assert isinstance(source, Node)
        node = owner(source)
    return node


def _lies_as(base: Node, argument: Node, known: Known) -> bool:
    """Whether places in memory mean the same of both, or the first is no new value of the second."""
    ours, theirs = base.meta["val"], argument.meta["val"]
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return True
    return place(base, known) == place(argument, known) and ours.stride() == theirs.stride()


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
