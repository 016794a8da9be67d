"""Derivatives in forward mode, of which torch has none of `linear` where a device has a kernel of its own.

While some are taken, the device has none: `linear` is a product and a sum, to autograd too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

_kernels: list[torch.library.Library] = []


def register(linear: Callable[..., Any]) -> None:
    """Gives the device the kernel, but while there are tangents."""
    enter, leave = forward_ad.enter_dual_level, forward_ad.exit_dual_level

    def enter_dual_level() -> int:
        level = enter()
        _take_back()
        return level

    def exit_dual_level(*, level: int | None = None) -> None:
        leave(level=level)
        _give(linear)

    forward_ad.enter_dual_level, forward_ad.exit_dual_level = enter_dual_level, exit_dual_level
    _give(linear)


def _give(linear: Callable[..., Any]) -> None:
    library = torch.library.Library("aten", "IMPL")
    library.impl("linear", linear, "PrivateUse1")
    _kernels.append(library)


def _take_back() -> None:
    while _kernels:
        _kernels.pop()._destroy()
