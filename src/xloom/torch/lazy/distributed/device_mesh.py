"""DeviceMesh and DTensor on the device, by torch's own code.

For a mesh of `xla` torch makes no process groups, and leaves what is distributed to torch_xla's partitioner: three
functions compare the device with this name. Here they compare it with one that no device has.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from torch.distributed import device_mesh

_NAME, _NOBODYS = "xla", "xla of torch_xla"
_seen: set[Any] = set()


def register() -> None:
    """Has meshes of the device be as those of others."""
    _compare_otherwise(device_mesh.DeviceMesh.__init__)


def register_tensors() -> None:
    """The same of what is distributed over them. Importing it takes a while: it is done when there is a group."""
    from torch.distributed.tensor import distribute_module, distribute_tensor

    from xloom.torch.lazy.distributed import linear_sharding, mixed_parameters

    for function in (distribute_tensor, distribute_module):
        _compare_otherwise(function)
    linear_sharding.register()
    mixed_parameters.register()


def _compare_otherwise(function: Any) -> None:
    if isinstance(function, FunctionType) and function not in _seen:
        _seen.add(function)
        constants = tuple(_NOBODYS if each == _NAME else each for each in function.__code__.co_consts)
        function.__code__ = function.__code__.replace(co_consts=constants)
