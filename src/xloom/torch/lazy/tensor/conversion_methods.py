"""`tensor.xla()`, `module.xla()` and `packed_sequence.xla()`, as every device of torch's has."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.utils.rnn  # whose class gets methods, too
from torch.utils import backend_registration


def _to_device(
    self: torch.Tensor, device: int | str | torch.device | None = None, non_blocking: bool = False, **kwargs: Any
) -> torch.Tensor:
    """The tensor on the device: itself if it is there, else a copy."""
    index = backend_registration._normalization_device("xla", device)
    return self.to(device=torch.device("xla", index), non_blocking=non_blocking, **kwargs)


def register() -> None:
    """Adds them. torch's maker of a tensor's methods stops at `is_xla`, which tensors have from the start."""
    torch.Tensor.xla = _to_device  # type: ignore[attr-defined]
    backend_registration._generate_module_methods_for_privateuse1_backend("xla")
    backend_registration._generate_packed_sequence_methods_for_privateuse1_backend("xla")
