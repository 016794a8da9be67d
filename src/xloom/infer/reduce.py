"""Shapes of reductions, windows, sorting and scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.dtype import s32
from xloom.hlo.shape import UNBOUNDED, Shape, array_shape, tuple_shape
from xloom.infer.elementwise import require_array
from xloom.infer.layout import check_dimensions
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]


def _results(attrs: Attrs, count: int) -> list[Shape]:
    root = attrs["to_apply"].root.shape
    parts = list(root.elements) if root.is_tuple else [root]
    if len(parts) != count:
        raise ShapeError(
            f"to_apply returns {len(parts)} values for {count} operands",
            hint="it returns a value for each operand, in a tuple where they are several",
        )
    return parts


def _together(shapes: list[Shape], as_tuple: bool) -> Shape:
    return tuple_shape(shapes) if as_tuple else shapes[0]


@infers("reduce")
def reduce(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operands without the reduced dimensions, with the element types that to_apply returns."""
    count = len(operands) // 2
    if count < 1 or len(operands) % 2:
        raise ShapeError(
            f"takes n operands and n initial values, found {len(operands)}",
            hint="give the operands first, then a scalar for each",
        )
    first = require_array(operands[0])
    check_dimensions(attrs["dimensions"], first.rank)
    for other in operands[1:count]:
        if other.dims != first.dims and not other.is_dynamic:
            raise ShapeError(
                f"operands have different dimensions: {first} and {other}", hint="broadcast or reshape one of them"
            )
    kept = [k for k in range(first.rank) if k not in attrs["dimensions"]]
    dims = [first.dims[k] for k in kept]
    dynamic = [first.is_dynamic_dimension(k) for k in kept]
    root = attrs["to_apply"].root.shape
    return _together([array_shape(p.dtype, dims, dynamic) for p in _results(attrs, count)], root.is_tuple)


def windowed(shape: Shape, window: Sequence[Any]) -> list[int]:
    """How many window positions fit each dimension."""
    if len(window) != shape.rank:
        raise ShapeError(
            f"window has {len(window)} dimensions, the operand {shape.rank}",
            hint="write a size for each dimension of the operand",
        )
    dims = []
    for k, (size, d) in enumerate(zip(shape.dims, window, strict=True)):
        if d.size < 1 or d.stride < 1 or d.base_dilation < 1 or d.window_dilation < 1:
            raise ShapeError(f"window dimension {k} has a size, stride or dilation below 1", hint="leave out what is 1")
        dims.append(UNBOUNDED if size == UNBOUNDED else d.output_size(size))
    return dims


@infers("reduce-window")
def reduce_window(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The window positions that fit each dimension."""
    count = len(operands) // 2
    if count < 1 or len(operands) % 2:
        raise ShapeError(
            f"takes n operands and n initial values, found {len(operands)}",
            hint="give the operands first, then a scalar for each",
        )
    first = require_array(operands[0])
    dims = windowed(first, attrs.get("window", ()))
    root = attrs["to_apply"].root.shape
    # unlike reduce, the element types are those of the initial values
    _results(attrs, count)
    shapes = [array_shape(init.dtype, dims, first.dynamic) for init in operands[count:]]
    return _together(shapes, root.is_tuple)


@infers("select-and-scatter")
def select_and_scatter(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape; the source has that of its windows."""
    operand, source, _ = operands
    dims = windowed(require_array(operand), attrs.get("window", ()))
    if tuple(dims) != source.dims and not (operand.is_dynamic or source.is_dynamic):
        raise ShapeError(
            f"source {source} does not have the window dimensions {dims}",
            hint="a source has an element for each window of the operand",
        )
    return operand


@infers("sort")
def sort(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand, or the tuple of the operands."""
    if not operands:
        raise ShapeError("needs at least one operand", hint="give it operands")
    for other in operands:
        if require_array(other).dims != operands[0].dims:
            raise ShapeError(
                f"operands have different dimensions: {operands[0]} and {other}",
                hint="broadcast or reshape one of them",
            )
    if len(attrs["dimensions"]) != 1:
        raise ShapeError("sorts along exactly one dimension", hint="write dimensions={0}, or another one")
    if operands[0].rank:
        check_dimensions(attrs["dimensions"], operands[0].rank)
    return _together(list(operands), len(operands) > 1)


@infers("topk")
def topk(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """k values along the last dimension, and their s32 indices."""
    shape, k = require_array(operands[0]), attrs["k"]
    if not shape.rank or k < 0 or k > shape.dims[-1] >= 0:
        raise ShapeError(
            f"cannot take {k} elements along the last dimension of {shape}",
            hint="k is at most the size of the last dimension",
        )
    dims = (*shape.dims[:-1], k)
    return tuple_shape([array_shape(shape.dtype, dims, shape.dynamic), array_shape(s32, dims, shape.dynamic)])


@infers("scan")
def scan(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """What to_apply returns a step, stacked along the scanned dimension, and then the carries."""
    carries = attrs["num_carries"]
    if not 0 <= carries <= len(operands):
        raise ShapeError(
            f"num_carries={carries} for {len(operands)} operands",
            hint="the last operands are carried, at most all of them",
        )
    (dim,) = attrs["dimensions"]
    inputs = operands[: len(operands) - carries]
    root = attrs["to_apply"].root.shape
    parts = list(root.elements) if root.is_tuple else [root]
    outputs = parts[: len(parts) - carries]
    size = inputs[0].dims[dim] if inputs else None
    shapes = []
    for part in outputs:
        if size is None:
            raise ShapeError(
                "the length of a scan without inputs must be written in its shape",
                hint="write the result's shape: no input says how many steps there are",
            )
        dims = list(part.dims)
        dims.insert(dim, size)
        shapes.append(array_shape(part.dtype, dims))
    return tuple_shape([*shapes, *operands[len(operands) - carries :]])
