"""Literals out of and into LiteralProto, whose elements lie in the order of the shape's layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.dtype import DType, Kind
from xloom.hlo.literal import Literal
from xloom.hlo.proto.shapes import shape_from_bytes, shape_to_bytes
from xloom.hlo.shape import Shape, default_layout

_FIXED = frozenset(("pred", "f32", "f64", "c64", "c128"))
_VARINT = frozenset(("s32", "s64", "u32", "u64"))


def literal_from_message(message: Any) -> Literal:
    """The literal that a LiteralProto says. Raises ShapeError when the elements do not fill the shape."""
    return _read(message, shape_from_bytes(message.shape))


def _read(message: Any, shape: Shape) -> Literal:
    if shape.is_tuple:
        if len(message.tuple_literals) != len(shape.elements):
            raise ShapeError(f"{len(message.tuple_literals)} literals for the tuple {shape}")
        parts = zip(message.tuple_literals, shape.elements, strict=True)
        return Literal(shape, None, tuple(_read(part, element) for part, element in parts))
    if not shape.is_array:
        return Literal(shape)
    order = shape.major_to_minor
    count = shape.size
    physical = _elements(message, shape.dtype, count).reshape([shape.dims[d] for d in order])
    array = physical.transpose(np.argsort(order)) if order else physical
    if shape.dynamic:
        sizes = tuple(message.dynamic_sizes)
        if len(sizes) != shape.rank or any(not 0 <= s <= d for s, d in zip(sizes, shape.dims, strict=True)):
            raise ShapeError(f"run-time sizes {list(sizes)} do not fit {shape}")
        array = array[tuple(slice(s) for s in sizes)]
    return Literal(shape, array)


def _elements(message: Any, dtype: DType, count: int) -> np.ndarray:
    field = getattr(message, dtype.name + "s")
    found = len(field)
    if dtype.name in _VARINT:
        if found == count:
            return np.fromiter(field, dtype.numpy, count)
    else:
        data = b"".join(field) if dtype.name in _FIXED else field
        found, width = len(data), dtype.numpy.itemsize
        if found == count * width:
            if dtype.kind is Kind.PRED:
                return np.frombuffer(data, np.uint8) != 0
            if dtype.is_integer and dtype.bits < 8:
                return np.frombuffer(data, np.int8).astype(dtype.numpy)
            if dtype.bits < 8:
                return (np.frombuffer(data, np.uint8) & (1 << dtype.bits) - 1).view(dtype.numpy)
            return np.frombuffer(data, dtype.numpy)
        found = found / width if found % width else found // width
    raise ShapeError(f"{found} elements for {count} of {dtype.name}")


def write_literal(literal: Literal, message: Any) -> None:
    """Fills a LiteralProto. Values that an elided element of a tuple lacks are written as zeros."""
    shape = literal.shape
    if shape.is_array and shape.layout is None:
        shape = shape.with_layout(default_layout(shape.rank))
    message.shape = shape_to_bytes(shape)
    if shape.is_tuple:
        for element in literal.elements:
            write_literal(element, message.tuple_literals.add())
        return
    if not shape.is_array:
        return
    array = literal.value
    if shape.dynamic:
        message.dynamic_sizes.extend(array.shape)
        filled = np.zeros(shape.dims, array.dtype)
        filled[tuple(map(slice, array.shape))] = array
        array = filled
    array = np.ascontiguousarray(array.transpose(shape.major_to_minor))
    name = shape.dtype.name
    field = getattr(message, name + "s")
    if name in _VARINT:
        field.extend(array.reshape(-1).tolist())
    elif name in _FIXED:
        field.append(array.tobytes())
    else:
        setattr(message, name + "s", array.tobytes())
