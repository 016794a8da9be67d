"""What emulated kernels tell handles of a graph's conditional nodes."""

from __future__ import annotations

import ctypes

VALUES: dict[int, int] = {}
"""By the handle: of all emulated kernels of the process."""


@ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint32)
def set_condition(handle: int, value: int) -> None:
    """As cudaGraphSetConditional."""
    VALUES[handle] = value


ADDRESS = ctypes.cast(set_condition, ctypes.c_void_p).value or 0
