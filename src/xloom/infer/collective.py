"""Shapes of collectives, where the operands decide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]


def _all(shapes: Sequence[Shape]) -> Shape:
    if not shapes:
        raise ShapeError("needs at least one operand", hint="give it operands")
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)


@infers("all-reduce", "all-reduce-start", "collective-broadcast")
def same(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand, or the tuple of the operands."""
    return _all(operands)


@infers("collective-permute")
def collective_permute(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape; the in-place form returns its output buffer's."""
    if attrs.get("slice_sizes"):
        return operands[1]
    return _all(operands)


def _group_size(attrs: Attrs) -> int:
    groups = attrs.get("replica_groups")
    sizes = {len(g) for g in groups.groups(0)} if groups is not None else {0}
    if len(sizes) != 1 or 0 in sizes:
        raise ShapeError(
            "the size of the replica groups is not known: write the shape",
            hint="write the result's shape, or replica_groups",
        )
    return sizes.pop()


@infers("all-gather")
def all_gather(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Each operand, its gather dimension times the group size."""
    (dim,), count = attrs["dimensions"], _group_size(attrs)
    return _all([_scaled(o, dim, lambda size: size * count) for o in operands])


@infers("reduce-scatter")
def reduce_scatter(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Each operand, its scatter dimension divided by the group size."""
    (dim,), count = attrs["dimensions"], _group_size(attrs)
    return _all([_scaled(o, dim, lambda size: size // count) for o in operands])


def _scaled(shape: Shape, dim: int, change: Any) -> Shape:
    dims = list(shape.dims)
    dims[dim] = change(dims[dim])
    return array_shape(shape.dtype, dims)
