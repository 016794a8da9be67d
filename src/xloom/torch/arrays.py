"""Tensors as NumPy arrays and back, of every dtype that HLO has, on the same memory."""

from __future__ import annotations

import numpy as np
import torch

from xloom.hlo.dtype import from_numpy
from xloom.torch.dtypes import hlo_dtype, torch_dtype


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor on an array's memory, or on a copy of it where that is read-only."""
    dtype = torch_dtype(from_numpy(array.dtype))
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat if flat.flags.writeable else flat.copy()
    return torch.from_numpy(flat.view(np.uint8)).view(dtype).view(array.shape)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's elements, in row-major order."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    dtype = hlo_dtype(tensor.dtype).numpy
    flat = tensor.as_strided((tensor.numel(),), (1,))  # of one element view(-1) may keep another stride
    return flat.view(torch.uint8).numpy().view(dtype).reshape(tuple(tensor.shape))
