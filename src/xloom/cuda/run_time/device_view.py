"""An array in device memory as code outside of programs sees it: what Numba, CuPy, PyTorch and Triton take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xloom.hlo.shape import Shape


class DeviceView:
    """An array at an address; the host cannot read it. It is good while the call runs that it was made for."""

    def __init__(self, address: int, shape: Shape, stream: int, *, is_writable: bool):
        self.address, self.stream = address, stream
        """Of its first element; the stream that the call is in."""
        self.shape, self.dtype = shape.dims, shape.dtype.numpy
        self.is_writable = is_writable
        order = shape.major_to_minor
        sizes = [shape.dims[d] for d in order]
        steps = {d: math.prod(sizes[k + 1 :]) * self.dtype.itemsize for k, d in enumerate(order)}
        self.strides = tuple(steps[d] for d in range(len(order)))
        """In bytes, as the call has its layout."""

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, not self.is_writable),
            "strides": self.strides,
            "version": 3,
            "stream": self.stream or None,
        }

    def data_ptr(self) -> int:
        """Its address, as PyTorch's arrays say it."""
        return self.address

    def __repr__(self) -> str:
        return f"DeviceView({self.dtype}{list(self.shape)} at {self.address:#x})"


def nested_views(shapes: Sequence[Shape], addresses: Sequence[int], stream: int, *, is_writable: bool) -> list[Any]:
    """Views of arrays at `addresses`, one for each array or token, nested as the tuples of `shapes` are."""
    rest = iter(addresses)
    return [_view(shape, rest, stream, is_writable) for shape in shapes]


def _view(shape: Shape, addresses: Iterator[int], stream: int, is_writable: bool) -> Any:
    if shape.is_tuple:
        return tuple(_view(element, addresses, stream, is_writable) for element in shape.elements)
    address = next(addresses)
    return DeviceView(address, shape, stream, is_writable=is_writable) if shape.is_array else None


def array_shapes(shapes: Sequence[Shape]) -> list[Shape | None]:
    """The shapes of the arrays in them, flattened; None for tokens."""
    found: list[Shape | None] = []
    for shape in shapes:
        found += array_shapes(shape.elements) if shape.is_tuple else [shape if shape.is_array else None]
    return found


def lying(shape: Shape) -> np.ndarray:
    """An array of the host's, of zeros, that lies as `shape` says."""
    order = shape.major_to_minor
    flat = np.zeros([shape.dims[d] for d in order], shape.dtype.numpy)
    return flat.transpose(np.argsort(order)) if order else flat
