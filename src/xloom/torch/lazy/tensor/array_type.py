"""What the graph knows of a tensor: its element type, its dimensions, and the order in which torch sees them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from xloom.hlo.shape import Shape, array_shape
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.strides import contiguous_strides, dense_order, overlap


class ArrayType:
    """A dtype, dimensions and strides; one object for each, so that comparing and hashing cost nothing.

    Values are row-major whatever the strides of the tensors that hold them: strides say what memory would look like,
    to torch and to views of that memory.
    """

    __slots__ = ("_others", "dims", "dtype", "nbytes", "order", "overlaps", "row_major", "shape", "size", "strides")

    def __init__(self, shape: Shape, strides: tuple[int, ...], row_major: ArrayType | None = None):
        self.shape = shape
        self.dims = shape.dims
        self.size = shape.size
        self.nbytes = shape.nbytes
        self.dtype = torch_dtype(shape.dtype)
        self.strides = strides
        self.row_major = self if row_major is None else row_major
        self.order = dense_order(shape.dims, strides)
        """The dimensions, slowest first, if elements fill memory one by one; else None."""
        self.overlaps = self.order is None and overlap(shape.dims, strides)
        """Whether several elements lie at one place."""
        self._others: dict[tuple[int, ...], ArrayType] = {}

    def with_strides(self, strides: Sequence[int]) -> ArrayType:
        """The same dtype and dimensions, seen with those strides."""
        strides = tuple(strides)
        row_major = self.row_major
        if strides == row_major.strides:
            return row_major
        found = row_major._others.get(strides)
        if found is None:
            found = row_major._others[strides] = ArrayType(self.shape, strides, row_major)
        return found

    def __str__(self) -> str:
        return self.shape.to_text(layout=False)

    __repr__ = __str__


_types: dict[tuple[torch.dtype, tuple[int, ...]], ArrayType] = {}


def array_type(dtype: torch.dtype, dims: tuple[int, ...]) -> ArrayType:
    """The row-major type. Raises UnsupportedError for dtypes that HLO does not have."""
    found = _types.get((dtype, dims))
    if found is None:
        found = _types[dtype, dims] = ArrayType(array_shape(hlo_dtype(dtype), dims), contiguous_strides(dims))
    return found


def type_of_shape(shape: Shape) -> ArrayType:
    """The type of an instruction."""
    return array_type(torch_dtype(shape.dtype), shape.dims)


@lru_cache(maxsize=4096)
def type_of_copy(type: ArrayType, dtype: torch.dtype, memory_format: torch.memory_format | None) -> ArrayType:
    """The type that torch gives to a copy of such a tensor, as another dtype and in a memory format."""
    made = array_type(dtype, type.dims)
    if memory_format is None or memory_format is torch.preserve_format:
        if type.order is not None:
            return made.with_strides(type.strides)
        like = torch.empty_strided(type.dims, type.strides, device="meta")
        return made.with_strides(torch.empty_like(like).stride())
    return made.with_strides(torch.empty(type.dims, device="meta", memory_format=memory_format).stride())
