"""A translated graph on a GPU that torch uses too: its tensors by their addresses, in the order of torch's stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from xloom.cuda.run_time.arrays import CudaArray
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.executable import CudaExecutable
from xloom.cuda.run_time.memory import Lent
from xloom.errors import UnsupportedError
from xloom.hlo.module import Module
from xloom.pjrt import cuda
from xloom.torch.dtypes import torch_dtype


class GraphOnGpu:
    """Called with tensors on the GPU, gives the tensors of its results there, which are made by and by."""

    def __init__(self, module: Module, device: torch.device):
        """Raises UnsupportedError where the driver has no such GPU, LoweringError for what has no kernels."""
        self.device = device
        self._gpu = _gpu(device.index or 0)
        self._executable = CudaExecutable(module, self._gpu.target)
        self._parameters = [p.shape for p in module.entry.parameters]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs it on dense tensors. Raises DriverError for what is refused, or what went wrong before."""
        gpu, stream = self._gpu, current_stream(self.device)
        results = [empty(s.dims, torch_dtype(s.dtype), self.device) for s in self._executable.results]
        with gpu:
            before = gpu.record(stream, "what torch's stream was given")
            arguments = [
                CudaArray(gpu, Lent(t.data_ptr(), s.nbytes, t), s.dims, s.dtype.numpy, before)
                for t, s in zip(tensors, self._parameters, strict=True)
            ]
            gpu.follow(gpu.compute, before)  # the results' memory may have been another tensor's
            places = [Lent(r.data_ptr(), s.nbytes, r) for r, s in zip(results, self._executable.results, strict=True)]
            self._executable.run(gpu, arguments, into=places)
            # torch may give the memory of all of them to others, in its stream
            gpu.follow(stream, gpu.record(gpu.compute, "a graph of torch's"))
        return results


def device_of(values: Sequence[Any]) -> torch.device | None:
    """The GPU that the tensors of a graph are on; None of those of the host.

    Numbers that torch has as tensors of the host may be among them. Raises UnsupportedError for several GPUs.
    """
    found = {v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda"}
    if len(found) > 1:
        names = ", ".join(sorted(map(str, found)))
        raise UnsupportedError(f"a graph has tensors of {names}", hint="bring them to one: tensor.to(device)")
    return next(iter(found), None)


def current_stream(device: torch.device) -> int:
    """The stream that torch gives the device's work at present."""
    return torch.cuda.current_stream(device).cuda_stream


def empty(dims: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor for a result."""
    return torch.empty(dims, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _gpu(ordinal: int) -> CudaDevice:
    """A GPU by torch's number, whose context is torch's too."""
    return cuda.gpus(ordinal + 1)[ordinal]
