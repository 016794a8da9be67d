"""DDP that finds out which parameters no process uses, which its reducer tells the device from pinned memory.

torch has pinned memory for no device that is written in Python. The device reads any memory of the host, so what is
asked for pinned memory gives any. That takes a call of Python for each tensor of the host that C++ makes with strides,
and so is there from the first such model on.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache, wraps
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from xloom.torch.strides import extent


def register() -> None:
    """Has models of the device ask for it that need it."""
    for name in ("__init__", "_set_static_graph"):
        setattr(DistributedDataParallel, name, _with_pinned_memory(getattr(DistributedDataParallel, name)))


def _with_pinned_memory(own: Any) -> Any:
    @wraps(own)
    def run(self: DistributedDataParallel, *args: Any, **named: Any) -> None:
        own(self, *args, **named)
        if self.device_type == "xla" and (self.find_unused_parameters or self.static_graph):
            _have_pinned_memory()

    return run


@cache
def _have_pinned_memory() -> torch.library.Library:
    """Registers, for tensors of the host, what torch's own has no answer to. Lasts as long as the result."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it replaces torch's own, which is known
        library.impl("empty_strided", _empty_strided, "CPU", allow_override=True)
        library.impl("is_pinned", _is_pinned, "CPU", allow_override=True)
    return library


def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    empty = torch.empty(0, dtype=dtype, device="cpu")
    memory = torch.UntypedStorage(extent(size, stride) * empty.itemsize)
    return empty.set_(memory, 0, tuple(size), tuple(stride))  # type: ignore[arg-type]


def _is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    return True
