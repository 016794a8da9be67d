"""What the graph knows of a tensor: its element type and dimensions."""

from __future__ import annotations

import torch

from xloom.hlo.shape import Shape, array_shape
from xloom.torch.dtypes import hlo_dtype, torch_dtype


class ArrayType:
    """A dtype and dimensions; one object for each, so that comparing and hashing cost nothing."""

    __slots__ = ("dims", "dtype", "shape", "size", "strides")

    def __init__(self, shape: Shape):
        self.shape = shape
        self.dims = shape.dims
        self.size = shape.size
        self.dtype = torch_dtype(shape.dtype)
        self.strides = contiguous_strides(shape.dims)

    def __str__(self) -> str:
        return self.shape.to_text(layout=False)

    __repr__ = __str__


_types: dict[tuple[torch.dtype, tuple[int, ...]], ArrayType] = {}


def array_type(dtype: torch.dtype, dims: tuple[int, ...]) -> ArrayType:
    """The type. Raises UnsupportedError for dtypes that HLO does not have."""
    found = _types.get((dtype, dims))
    if found is None:
        found = _types[dtype, dims] = ArrayType(array_shape(hlo_dtype(dtype), dims))
    return found


def type_of_shape(shape: Shape) -> ArrayType:
    """The type of an instruction."""
    return array_type(torch_dtype(shape.dtype), shape.dims)


def contiguous_strides(dims: tuple[int, ...]) -> tuple[int, ...]:
    """torch's strides of a dense row-major array."""
    strides, step = [1] * len(dims), 1
    for k in range(len(dims) - 1, -1, -1):
        strides[k] = step
        step *= max(dims[k], 1)
    return tuple(strides)
