"""Shapes of operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.dtype import s32
from xloom.hlo.shape import UNBOUNDED, Shape, array_shape
from xloom.infer.elementwise import require_array
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]


def check_dimensions(dimensions: Sequence[int], rank: int) -> None:
    """Raises ShapeError unless all are distinct and below `rank`."""
    if len(set(dimensions)) != len(dimensions):
        raise ShapeError(f"a dimension stands twice in {tuple(dimensions)}", hint="name each dimension once")
    for d in dimensions:
        if not 0 <= d < rank:
            raise ShapeError(f"dimension {d} is out of range for rank {rank}", hint="dimensions are numbered from 0")


@infers("broadcast")
def broadcast(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """A scalar without dimensions keeps its shape; every other result shape must be written."""
    if operands[0].rank:
        raise ShapeError(
            "the shape of broadcast cannot be inferred: write it",
            hint="broadcast says which of its dimensions are the operand's, but not how long the others are",
        )
    return operands[0]


@infers("concatenate")
def concatenate(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The sum of the sizes along the one dimension; all others must agree."""
    if not operands:
        raise ShapeError("needs at least one operand", hint="give it operands")
    (dim,) = attrs["dimensions"] if len(attrs["dimensions"]) == 1 else (None,)
    first = require_array(operands[0])
    if dim is None:
        raise ShapeError(
            f"needs exactly one dimension, found {attrs['dimensions']}",
            hint="name the one along which they are put together",
        )
    check_dimensions((dim,), first.rank)
    dims, dynamic = list(first.dims), list(first.dynamic or (False,) * first.rank)
    for other in operands[1:]:
        if other.rank != first.rank or other.dtype is not first.dtype:
            raise ShapeError(
                f"cannot concatenate {first} and {other}",
                hint="operands have one element type, and but for that dimension one size",
            )
        for k, size in enumerate(other.dims):
            if k == dim:
                unbounded = UNBOUNDED in (size, dims[k])
                dims[k] = UNBOUNDED if unbounded else dims[k] + size
                dynamic[k] = dynamic[k] or other.is_dynamic_dimension(k)
            elif size != dims[k] and not (dynamic[k] or other.is_dynamic_dimension(k)):
                raise ShapeError(
                    f"cannot concatenate {first} and {other} along dimension {dim}",
                    hint="operands have one element type, and but for that dimension one size",
                )
            elif other.is_dynamic_dimension(k) or dynamic[k]:
                sizes = [s for s in (size, dims[k]) if s != UNBOUNDED]
                dims[k] = min(sizes) if sizes else UNBOUNDED
                dynamic[k] = (dynamic[k] and other.is_dynamic_dimension(k)) or dims[k] == UNBOUNDED
    return array_shape(first.dtype, dims, dynamic)


@infers("pad")
def pad(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """low + size + high + interior * (size - 1) a dimension."""
    shape, value = require_array(operands[0]), operands[1]
    padding = attrs["padding"]
    if not value.is_scalar or value.dtype is not shape.dtype:
        raise ShapeError(
            f"the padding value must be a scalar {shape.dtype.name}, found {value}",
            hint="pad with a scalar of the operand's element type",
        )
    if len(padding) != shape.rank:
        raise ShapeError(
            f"padding has {len(padding)} dimensions, the operand {shape.rank}",
            hint="write low_high or low_high_interior for each dimension, with x between",
        )
    dims = []
    for size, (low, high, interior) in zip(shape.dims, padding, strict=True):
        if interior < 0:
            raise ShapeError(
                f"interior padding cannot be negative, found {interior}",
                hint="it puts elements between others, and takes none away",
            )
        new = UNBOUNDED if size == UNBOUNDED else low + high + size + interior * max(0, size - 1)
        if new < 0 and new != UNBOUNDED:
            raise ShapeError(
                f"padding {low}_{high}_{interior} of {size} elements leaves a negative size",
                hint="negative padding takes elements away: no more than there are",
            )
        dims.append(new)
    return array_shape(shape.dtype, dims, shape.dynamic)


@infers("reverse")
def reverse(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape."""
    shape = require_array(operands[0])
    check_dimensions(attrs["dimensions"], shape.rank)
    return shape


@infers("transpose")
def transpose(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Result dimension i is operand dimension `dimensions[i]`; the layout stays where the elements lie."""
    shape, order = require_array(operands[0]), attrs["dimensions"]
    if sorted(order) != list(range(shape.rank)):
        raise ShapeError(
            f"dimensions {order} are not a permutation of {shape.rank} dimensions",
            hint="name each dimension of the operand once",
        )
    dynamic = tuple(shape.dynamic[d] for d in order) if shape.dynamic else ()
    layout = None
    if shape.layout is not None:
        place = {d: k for k, d in enumerate(order)}
        layout = replace(shape.layout, minor_to_major=tuple(place[d] for d in shape.layout.minor_to_major))
    return array_shape(shape.dtype, tuple(shape.dims[d] for d in order), dynamic, layout)


@infers("slice")
def slice_(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """ceil((limit - start) / stride) a dimension."""
    shape, ranges = require_array(operands[0]), attrs["slice"]
    if len(ranges) != shape.rank:
        raise ShapeError(
            f"slice has {len(ranges)} dimensions, the operand {shape.rank}",
            hint="write [start:limit:stride] for each dimension of the operand",
        )
    dims = []
    for k, (start, limit, stride) in enumerate(ranges):
        size = shape.dims[k]
        if start < 0 or (limit > size != UNBOUNDED) or start > limit or stride <= 0:
            raise ShapeError(
                f"[{start}:{limit}:{stride}] is not a slice of {size} elements",
                hint="0 <= start <= limit <= size, with a stride of at least 1",
            )
        dims.append(-(-(limit - start) // stride))
    dynamic = tuple(shape.is_dynamic_dimension(k) and dims[k] == shape.dims[k] for k in range(shape.rank))
    return array_shape(shape.dtype, dims, dynamic)


@infers("get-dimension-size")
def get_dimension_size(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """s32[]."""
    check_dimensions(attrs["dimensions"], require_array(operands[0]).rank)
    return s32[()]


@infers("set-dimension-size")
def set_dimension_size(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape with the dimension dynamic."""
    shape, size = require_array(operands[0]), operands[1]
    if len(attrs["dimensions"]) != 1:
        raise ShapeError("needs exactly one dimension", hint="it gives or sets the size of one dimension")
    check_dimensions(attrs["dimensions"], shape.rank)
    if not size.is_scalar or size.dtype is not s32:
        raise ShapeError(f"the size must be s32[], found {size}", hint="convert or reshape it to s32[]")
    dynamic = list(shape.dynamic or (False,) * shape.rank)
    dynamic[attrs["dimensions"][0]] = True
    return Shape(shape.dtype, shape.dims, tuple(dynamic), shape.layout)
