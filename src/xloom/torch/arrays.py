"""Tensors as NumPy arrays and back, of every dtype that HLO has, on the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from xloom.hlo.dtype import from_numpy
from xloom.torch.dtypes import hlo_dtype, torch_dtype


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor on an array's memory, or on a copy of it where that is read-only."""
    if array.dtype.isbuiltin == 1 and array.flags.carray and array.dtype.kind in "fic":
        return torch.from_numpy(array)
    dtype = torch_dtype(from_numpy(array.dtype))
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat if flat.flags.writeable else flat.copy()
    return torch.from_numpy(flat.view(np.uint8)).view(dtype).view(array.shape)


class _Memory:
    """A tensor for NumPy to look at. A tensor whose own numpy() was called cannot grow any more."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: torch.Tensor, typestr: str):
        self.tensor = tensor
        size = tensor.itemsize
        self.__array_interface__ = {
            "version": 3,
            "typestr": typestr,
            "shape": tuple(tensor.shape),
            "strides": None if tensor.is_contiguous() else tuple([stride * size for stride in tensor.stride()]),
            "data": (tensor.data_ptr(), False),
        }


@cache
def _numpy_dtype(dtype: torch.dtype) -> tuple[np.dtype, str, bool]:
    """NumPy's type, how it is spelled, and whether that is enough to say which it is."""
    own = hlo_dtype(dtype).numpy
    is_known = own.isbuiltin == 1  # others spell what NumPy reads as something else, or not at all
    return own, own.str if is_known else f"|V{own.itemsize}", is_known


def over(tensor: torch.Tensor) -> np.ndarray:
    """An array over the same memory, in the tensor's strides, that is not read or written once the tensor has grown."""
    dtype, typestr, is_known = _numpy_dtype(tensor.dtype)
    array = np.asarray(_Memory(tensor, typestr))
    return array if is_known else array.view(dtype)


def in_memory_of(
    memory: torch.Tensor, dtype: torch.dtype, dims: Sequence[int], strides: Sequence[int], offset: int = 0
) -> torch.Tensor:
    """A tensor in the memory of another one. To autograd it is no view of that: it can be written to under any mode."""
    return torch.empty(0, dtype=dtype, device="cpu").set_(memory.untyped_storage(), offset, dims, strides)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's elements, in row-major order."""
    array = over(tensor.detach().resolve_conj().resolve_neg().contiguous())
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
