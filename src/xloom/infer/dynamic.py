"""Shapes of operators whose indices depend on data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.infer.elementwise import require_array
from xloom.infer.layout import check_dimensions
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]


@infers("dynamic-slice")
def dynamic_slice(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The sizes asked for."""
    shape, sizes = require_array(operands[0]), attrs["dynamic_slice_sizes"]
    if len(sizes) != shape.rank:
        raise ShapeError(
            f"dynamic_slice_sizes has {len(sizes)} dimensions, the operand {shape.rank}",
            hint="write one size for each dimension of the operand",
        )
    for size, bound in zip(sizes, shape.dims, strict=True):
        if not 0 <= size <= bound:
            raise ShapeError(
                f"slice size {size} does not fit a dimension of {bound}", hint="no slice is longer than the operand"
            )
    dynamic = tuple(shape.is_dynamic_dimension(k) and sizes[k] == shape.dims[k] for k in range(shape.rank))
    return array_shape(shape.dtype, sizes, dynamic)


@infers("dynamic-update-slice")
def dynamic_update_slice(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape; the update must fit into it."""
    shape, update = require_array(operands[0]), require_array(operands[1])
    if update.rank != shape.rank or update.dtype is not shape.dtype:
        raise ShapeError(
            f"update {update} does not fit operand {shape}", hint="an update has the operand's rank and element type"
        )
    for size, bound in zip(update.dims, shape.dims, strict=True):
        if size > bound >= 0:
            raise ShapeError(
                f"update size {size} does not fit a dimension of {bound}", hint="no update is longer than the operand"
            )
    return shape


def _index_shape(indices: Shape, index_vector_dim: int) -> list[int]:
    dims = list(require_array(indices, "indices").dims)
    if not 0 <= index_vector_dim <= len(dims):
        raise ShapeError(
            f"index_vector_dim={index_vector_dim} is out of range for indices {indices}",
            hint="it is a dimension of the indices, or their rank where each is a number by itself",
        )
    if index_vector_dim == len(dims):
        dims.append(1)
    return dims


@infers("gather")
def gather(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Batch dimensions from the indices, offset dimensions from the slice sizes, placed by `offset_dims`."""
    shape, indices = require_array(operands[0]), operands[1]
    if not (indices.is_array and indices.dtype.is_integer):
        raise ShapeError(f"indices must be integers, found {indices}", hint="convert them to s32")
    at, sizes, offset = attrs["index_vector_dim"], attrs["slice_sizes"], attrs["offset_dims"]
    index_dims = _index_shape(indices, at)
    batching = attrs.get("operand_batching_dims", ())
    left_out = {*attrs["collapsed_slice_dims"], *batching}
    if len(sizes) != shape.rank:
        raise ShapeError(
            f"slice_sizes has {len(sizes)} dimensions, the operand {shape.rank}",
            hint="write one size for each dimension of the operand",
        )
    if len(attrs["start_index_map"]) != index_dims[at]:
        raise ShapeError(
            f"start_index_map has {len(attrs['start_index_map'])} entries, indices have {index_dims[at]}",
            hint="name a dimension of the operand for each number of an index vector",
        )
    check_dimensions(attrs["start_index_map"], shape.rank)
    check_dimensions(attrs["collapsed_slice_dims"], shape.rank)
    check_dimensions(batching, shape.rank)
    for k, size in enumerate(sizes):
        if not 0 <= size <= max(shape.dims[k], 0) and shape.dims[k] >= 0:
            raise ShapeError(
                f"slice size {size} does not fit a dimension of {shape.dims[k]}",
                hint="no slice is longer than the operand",
            )
        if k in left_out and size > 1:
            raise ShapeError(
                f"slice dimension {k} is collapsed but has size {size}", hint="collapse dimensions of size 1 alone"
            )
    window = [
        (sizes[k], shape.is_dynamic_dimension(k) and sizes[k] == shape.dims[k])
        for k in range(shape.rank)
        if k not in left_out
    ]
    batch = [(d, indices.is_dynamic_dimension(k)) for k, d in enumerate(index_dims) if k != at]
    if len(window) != len(offset):
        raise ShapeError(
            f"offset_dims has {len(offset)} entries, the slices have {len(window)} dimensions",
            hint="slices have the operand's dimensions but collapsed_slice_dims and operand_batching_dims",
        )
    rank = len(window) + len(batch)
    check_dimensions(offset, rank)
    windows, batches = iter(window), iter(batch)
    out = [next(windows) if k in offset else next(batches) for k in range(rank)]
    return array_shape(shape.dtype, [size for size, _ in out], [d for _, d in out])


@infers("scatter")
def scatter(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The shape of the operand, or of their tuple."""
    if len(operands) < 3 or len(operands) % 2 == 0:
        raise ShapeError(
            f"takes n operands, indices and n updates, found {len(operands)}",
            hint="give as many updates as operands, with the indices between them",
        )
    count = len(operands) // 2
    indices = operands[count]
    if not (indices.is_array and indices.dtype.is_integer):
        raise ShapeError(f"indices must be integers, found {indices}", hint="convert them to s32")
    at = attrs["index_vector_dim"]
    index_dims = _index_shape(indices, at)
    left_out = {*attrs["inserted_window_dims"], *attrs.get("input_batching_dims", ())}
    window_dims = attrs["update_window_dims"]
    if len(attrs["scatter_dims_to_operand_dims"]) != index_dims[at]:
        raise ShapeError(
            f"scatter_dims_to_operand_dims has {len(attrs['scatter_dims_to_operand_dims'])} entries, "
            f"indices have {index_dims[at]}",
            hint="name a dimension of the operand for each number of an index vector",
        )
    batch = [d for k, d in enumerate(index_dims) if k != at]
    for operand, update in zip(operands[:count], operands[count + 1 :], strict=True):
        if operand.dtype is not update.dtype and not (operand.dtype.is_float and update.dtype.is_float):
            raise ShapeError(
                f"update {update} and operand {operand} have different element types", hint="convert one of them"
            )
        check_dimensions(attrs["scatter_dims_to_operand_dims"], operand.rank)
        bounds = [d for k, d in enumerate(operand.dims) if k not in left_out]
        if update.rank != len(window_dims) + len(batch) or len(bounds) != len(window_dims):
            raise ShapeError(
                f"update {update} does not fit operand {operand} and indices {indices}",
                hint="an update has the scatter dimensions of the indices and the window's",
            )
        check_dimensions(window_dims, update.rank)
        for k, bound in zip(window_dims, bounds, strict=True):
            if update.dims[k] > bound >= 0:
                raise ShapeError(
                    f"update window {update.dims[k]} does not fit a dimension of {bound}",
                    hint="no window is longer than the operand",
                )
        rest = [d for k, d in enumerate(update.dims) if k not in window_dims]
        if any(a != b and a >= 0 and b >= 0 for a, b in zip(rest, batch, strict=True)) and not update.is_dynamic:
            raise ShapeError(
                f"update {update} does not have the scatter dimensions {batch} of the indices",
                hint="those of the update that are no update_window_dims are the indices', in order",
            )
    return operands[0] if count == 1 else tuple_shape(operands[:count])
