"""Shapes and layouts out of and into ShapeProto."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo import dtype as dt
from xloom.hlo.dtype import BY_VALUE, DType
from xloom.hlo.proto.schema import messages
from xloom.hlo.shape import UNBOUNDED, Layout, Shape, array_shape, default_layout, tuple_shape


@lru_cache(maxsize=65536)
def shape_from_bytes(data: bytes) -> Shape:
    """The shape that a serialised ShapeProto says. Raises ShapeError, or protobuf's DecodeError."""
    return _shape(messages().Shape.FromString(data))


@lru_cache(maxsize=65536)
def shape_to_bytes(shape: Shape) -> bytes:
    """A serialised ShapeProto."""
    message = messages().Shape()
    _write_shape(shape, message)
    return message.SerializeToString()


def _dtype(value: int) -> DType:
    found = BY_VALUE.get(value)
    if found is None:
        raise ShapeError(
            f"there is no element type number {value}",
            hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
        )
    return found


def _shape(message: Any) -> Shape:
    dtype = _dtype(message.element_type)
    if not dtype.is_array and message.HasField("layout"):
        raise ShapeError(f"{dtype.name} has no layout")
    if dtype is dt.tuple_:
        return tuple_shape([_shape(e) for e in message.tuple_shapes])
    if dtype is dt.buffer:
        elements = tuple(_shape(e) for e in message.tuple_shapes)
        if len(elements) != 1 or not elements[0].is_array:
            raise ShapeError("a buffer holds one array")
        return Shape(dtype, elements=elements)
    if not dtype.is_array:
        return Shape(dtype)
    dims, dynamic = tuple(message.dimensions), tuple(message.is_dynamic_dimension)
    if dynamic and len(dynamic) != len(dims):
        raise ShapeError(f"{len(dynamic)} dynamic marks for {len(dims)} dimensions")
    for k, size in enumerate(dims):
        if size < 0 and not (size == UNBOUNDED and dynamic and dynamic[k]):
            raise ShapeError(f"invalid dimension size {size}")
    layout = _layout(message.layout, len(dims)) if message.HasField("layout") else None
    if layout is default_layout(len(dims)) and not any(dynamic):
        return array_shape(dtype, dims)
    return Shape(dtype, dims, dynamic, layout)


def _layout(message: Any, rank: int) -> Layout:
    order = tuple(message.minor_to_major)
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"layout {list(order)} is not an order of {rank} dimensions")
    layout = Layout(
        order,
        tuple(tuple(t.dimensions) for t in message.tiles),
        message.tail_padding_alignment_in_elements or 1,
        _dtype(message.index_primitive_type) if message.index_primitive_type else None,
        _dtype(message.pointer_primitive_type) if message.pointer_primitive_type else None,
        message.element_size_in_bits,
        message.memory_space,
        tuple((c.dimension, tuple(c.split_indices)) for c in message.split_configs),
        _shape(message.physical_shape) if message.HasField("physical_shape") else None,
        message.dynamic_shape_metadata_prefix_bytes,
    )
    return default_layout(rank) if layout.is_default else layout


def _write_shape(shape: Shape, message: Any) -> None:
    message.element_type = shape.dtype.value
    for element in shape.elements:
        _write_shape(element, message.tuple_shapes.add())
    message.dimensions.extend(shape.dims)
    message.is_dynamic_dimension.extend(shape.dynamic)
    if shape.layout is not None and shape.is_array:
        message.layout.SetInParent()
        _write_layout(shape.layout, message.layout)


def _write_layout(layout: Layout, message: Any) -> None:
    message.minor_to_major.extend(layout.minor_to_major)
    for tile in layout.tiles:
        message.tiles.add(dimensions=tile)
    message.tail_padding_alignment_in_elements = layout.tail_padding_alignment
    if layout.index_type is not None:
        message.index_primitive_type = layout.index_type.value
    if layout.pointer_type is not None:
        message.pointer_primitive_type = layout.pointer_type.value
    if layout.element_size_in_bits:
        message.element_size_in_bits = layout.element_size_in_bits
    if layout.memory_space:
        message.memory_space = layout.memory_space
    for dimension, indices in layout.split_configs:
        message.split_configs.add(dimension=dimension, split_indices=indices)
    if layout.physical_shape is not None:
        _write_shape(layout.physical_shape, message.physical_shape)
    if layout.metadata_prefix_bytes:
        message.dynamic_shape_metadata_prefix_bytes = layout.metadata_prefix_bytes
