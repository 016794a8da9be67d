"""`torch.Generator(device="xla")`: one of the host that says it is of the device, whose operators draw seeds from it.

torch asks a device for generators in C++, where no Python can answer, so that it is the class that answers.
"""

from __future__ import annotations

from typing import Any

import torch

from xloom.torch.lazy.runtime import device_module
from xloom.torch.lazy.tensor.tensor import DEVICE

_Own: Any = torch._C.Generator


class _Kinds(type):
    """Any generator is an instance, as before."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Own)


class Generator(metaclass=_Kinds):
    """What makes generators, of any device."""

    __doc__ = _Own.__doc__

    def __new__(cls, device: Any = "cpu") -> Any:
        """Raises RuntimeError for a device that there is not."""
        place = torch.device(device)
        if place.type != DEVICE.type:
            return _Own(device)
        device_module.check(place)
        return _OfDevice()


class _OfDevice(_Own):
    @property
    def device(self) -> torch.device:
        """The device."""
        return DEVICE

    def __reduce__(self) -> Any:
        return _with_state, (self.get_state(),)


def _with_state(state: torch.Tensor) -> torch.Generator:
    generator = Generator(DEVICE)
    generator.set_state(state)
    return generator


def register() -> None:
    """Puts it where torch's own class is."""
    torch.Generator = Generator  # type: ignore[misc, assignment]
