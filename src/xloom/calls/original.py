"""ABI `original` on Host: `void f(void* out, const void** in)`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xloom.calls import buffers

_Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def call(address: int, out: Any, operands: Sequence[Any], opaque: bytes) -> str | None:
    """Calls; there is no way to fail. The opaque bytes are not passed, as on XLA:CPU."""
    keep: list[Any] = []
    _Function(address)(buffers.pointer(out, keep), ctypes.addressof(buffers.pointers(operands, keep)))
    return None
