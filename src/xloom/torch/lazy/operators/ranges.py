"""Ranges and indices of triangles as one operator: torch writes the former into new memory, and has the latter for
devices of its own alone.
"""

from __future__ import annotations

from typing import Any

import torch

from xloom.torch.lazy.recording.lowered import lowered
from xloom.torch.lazy.runtime import device_module

aten = torch.ops.aten


def register(library: torch.library.Library) -> None:
    """Registers the kernels."""
    ranges = (aten.arange.default, aten.arange.start, aten.arange.start_step)
    kaiser = aten.kaiser_window
    windows = (kaiser.default, kaiser.periodic, kaiser.beta)
    for op in (*ranges, aten.tril_indices.default, aten.triu_indices.default, *windows):
        library.impl(op._schema.name.removeprefix("aten::") + _overload(op), _kernel(op), "PrivateUse1")


def _overload(op: Any) -> str:
    name = op._schema.overload_name
    return f".{name}" if name else ""


def _kernel(op: Any) -> Any:
    run = lowered(op)
    assert run is not None

    def kernel(*bounds: Any, dtype: Any = None, device: Any = None, **options: Any) -> torch.Tensor:
        device_module.check(device)
        return run(bounds, {"dtype": dtype})

    return kernel
