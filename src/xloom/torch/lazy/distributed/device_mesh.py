"""DeviceMesh and DTensor on the device, by torch's own code.

For a mesh of `xla` torch makes no process groups, and leaves what is distributed to torch_xla's partitioner: three
functions compare the device with this name. Here they compare it with one that no device has.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table, register_decomposition
from torch.distributed import device_mesh

_NAME, _NOBODYS = "xla", "xla of torch_xla"
_LINEAR_BACKWARD = torch.ops.aten.linear_backward.default
_seen: set[Any] = set()


def register() -> None:
    """Has meshes of the device be as those of others."""
    _compare_otherwise(device_mesh.DeviceMesh.__init__)


def register_tensors() -> None:
    """The same of what is distributed over them. Importing it takes a while: it is done when there is a group."""
    from torch.distributed.tensor import distribute_module, distribute_tensor

    for function in (distribute_tensor, distribute_module):
        _compare_otherwise(function)
    if _LINEAR_BACKWARD not in decomposition_table:
        from xloom.torch.lazy.distributed import linear_sharding

        linear_sharding.register()
        register_decomposition(_LINEAR_BACKWARD)(_linear_backward)


def _linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """By which DTensor finds shapes and dtypes of its results, all three: on this device it is an operator."""
    rows = grad_output.reshape(-1, grad_output.shape[-1])
    return grad_output @ weight, rows.t() @ self.reshape(-1, self.shape[-1]), rows.sum(0)


def _compare_otherwise(function: Any) -> None:
    if isinstance(function, FunctionType) and function not in _seen:
        _seen.add(function)
        constants = tuple(_NOBODYS if each == _NAME else each for each in function.__code__.co_consts)
        function.__code__ = function.__code__.replace(co_consts=constants)
