"""An array in device memory as code outside of programs sees it: what Numba, CuPy, PyTorch and Triton take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from xloom.hlo.shape import Shape
from xloom.llvm.target import Target

Sizes = tuple[int, int, int]


class Memory(Protocol):
    """A device's memory, in the order of a stream."""

    @property
    def stream(self) -> int:
        """Its handle."""
        ...

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """A copy of bytes, for which the host waits."""
        ...

    def write(self, address: int, data: np.ndarray) -> None:
        """Copies bytes there, which the caller may change at once."""
        ...

    @property
    def target(self) -> Target:
        """What code for the device is made for."""
        ...

    def launch(
        self, image: bytes, symbol: str, grid: Sizes, block: Sizes, shared_bytes: int, arguments: Sequence[Any]
    ) -> None:
        """Launches a kernel of PTX or a cubin, with views and scalars of ctypes or NumPy.

        Raises DriverError where it cannot be loaded or launched, CustomCallError for other arguments.
        """
        ...


class DeviceView:
    """An array at an address on a device. It is good while the call runs that it was made for."""

    def __init__(self, address: int, shape: Shape, memory: Memory, *, is_writable: bool):
        self.address, self.stream = address, memory.stream
        """Of its first element; the stream that the call is in."""
        self.memory, self._shape = memory, shape
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

    def to_host(self) -> np.ndarray:
        """A copy for the host, which waits for the stream."""
        out = lying(self._shape)
        flat = out.transpose(self._shape.major_to_minor) if out.ndim else out
        flat.reshape(-1).view(np.uint8)[...] = self.memory.read(self.address, self.nbytes)
        return out

    def from_host(self, array: Any) -> None:
        """Fills it with an array of the host's. Raises ValueError for one of other dimensions."""
        out = lying(self._shape)
        out[...] = array
        flat = out.transpose(self._shape.major_to_minor) if out.ndim else out
        self.memory.write(self.address, flat.reshape(-1).view(np.uint8))

    def data_ptr(self) -> int:
        """Its address, as PyTorch's arrays say it."""
        return self.address

    def __repr__(self) -> str:
        return f"DeviceView({self.dtype}{list(self.shape)} at {self.address:#x})"


def nested_views(shapes: Sequence[Shape], addresses: Sequence[int], memory: Memory, *, is_writable: bool) -> list[Any]:
    """Views of arrays at `addresses`, one for each array or token, nested as the tuples of `shapes` are."""
    rest = iter(addresses)
    return [_view(shape, rest, memory, is_writable) for shape in shapes]


def _view(shape: Shape, addresses: Iterator[int], memory: Memory, is_writable: bool) -> Any:
    if shape.is_tuple:
        return tuple(_view(element, addresses, memory, is_writable) for element in shape.elements)
    address = next(addresses)
    return DeviceView(address, shape, memory, is_writable=is_writable) if shape.is_array else None


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
