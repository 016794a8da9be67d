"""Buffers as custom calls see them: arrays in memory order, and nested arrays of pointers for tuples."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.hlo.shape import Shape

ALIGNMENT = 64
"""Bytes that every buffer is aligned to, as XLA:CPU aligns them."""


def allocate(shape: Shape) -> Any:
    """Zeroed buffers of `shape`, nested as its tuples are; each array is laid out as its layout says.

    The arrays are indexed logically. Tokens are None.
    """
    if shape.is_tuple:
        return tuple(allocate(e) for e in shape.elements)
    if not shape.is_array:
        return None
    order = memory_order(shape)
    flat = _aligned([shape.dims[d] for d in order], shape.dtype.numpy)
    return flat.transpose(np.argsort(order)) if order else flat


def _aligned(dims: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(dims)


def memory_order(shape: Shape) -> list[int]:
    """The dimensions from the slowest-varying one."""
    return list(range(shape.rank)) if shape.layout is None else list(reversed(shape.layout.minor_to_major))


def place(value: Any, shape: Shape) -> Any:
    """`value` in buffers of `shape`: itself where it already lies so, else a copy."""
    if shape.is_tuple:
        return tuple(place(v, s) for v, s in zip(value, shape.elements, strict=True))
    if not shape.is_array:
        return None
    array = np.asarray(value)
    dense = array.transpose(memory_order(shape)) if array.ndim else array
    if dense.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0 and array.shape == shape.dims:
        return array
    buffer = allocate(shape if array.shape == shape.dims else _resized(shape, array.shape))
    buffer[...] = array
    return buffer


def _resized(shape: Shape, dims: tuple[int, ...]) -> Shape:
    return Shape(shape.dtype, dims, (), shape.layout)


def read_only(value: Any) -> Any:
    """Views of the buffers that cannot be written."""
    if isinstance(value, tuple):
        return tuple(read_only(v) for v in value)
    if value is None:
        return None
    view = value.view()
    view.flags.writeable = False
    return view


def pointer(value: Any, keep: list[Any]) -> int:
    """The address of an array's elements, or of the array of a tuple's pointers; `keep` must outlive the call."""
    if isinstance(value, tuple):
        array = (ctypes.c_void_p * max(1, len(value)))(*(pointer(v, keep) for v in value))
        keep.append(array)
        return ctypes.addressof(array)
    return 0 if value is None else value.ctypes.data


def pointers(values: Sequence[Any], keep: list[Any]) -> Any:
    """The `const void** in` of a call."""
    array = (ctypes.c_void_p * max(1, len(values)))(*(pointer(v, keep) for v in values))
    keep.append(array)
    return array


def flat(value: Any) -> list[Any]:
    """The arrays, and None for each token, in pre-order."""
    return [leaf for v in value for leaf in flat(v)] if isinstance(value, tuple) else [value]


def part(value: Any, index: Sequence[int]) -> Any:
    """The buffer at a tuple index."""
    for k in index:
        value = value[k]
    return value


def with_part(value: Any, index: Sequence[int], buffer: Any) -> Any:
    """`value` with `buffer` at a tuple index."""
    if not index:
        return buffer
    k = index[0]
    return (*value[:k], with_part(value[k], index[1:], buffer), *value[k + 1 :])


def fill(target: Any, source: Any) -> None:
    """Copies the elements of `source` to `target`, which is nested as it is."""
    if isinstance(target, tuple):
        for t, s in zip(target, source, strict=True):
            fill(t, s)
    elif target is not None:
        target[...] = source
