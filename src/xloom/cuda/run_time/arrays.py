"""An array in device memory, which work that makes it may still be on the way to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.cuda.run_time.events import Completion
from xloom.cuda.run_time.memory import Block, Lent

if TYPE_CHECKING:
    from xloom.cuda.run_time.device import CudaDevice


class CudaArray:
    """A row-major array in a GPU's memory. The host knows its type and shape; `transfers.to_host` copies it."""

    __slots__ = ("__weakref__", "block", "completion", "device", "dtype", "shape")

    def __init__(
        self,
        device: CudaDevice,
        block: Block | Lent,
        shape: tuple[int, ...],
        dtype: np.dtype,
        completion: Completion | None = None,
    ):
        self.device, self.block, self.shape, self.dtype = device, block, shape, dtype
        self.completion = completion
        """When it is there; None of one that is."""

    @property
    def pointer(self) -> int:
        """Its address on the device."""
        return self.block.pointer

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "stream": self.device.compute,
        }

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("the host cannot read a GPU's memory: np.asarray of its buffer copies what is there")

    def __repr__(self) -> str:
        return f"CudaArray({self.dtype}{list(self.shape)}, {self.device})"
