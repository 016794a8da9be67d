"""Calls code on Host whose ABI is not known, but is not `typed-ffi`: `(out, in, status, 0, status)`.

So it has the arguments of each of the other three. The one that takes opaque bytes gets none, as there are none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xloom.calls import buffers
from xloom.calls.status import Status

_Function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_void_p)


def call(address: int, out: Any, operands: Sequence[Any], opaque: bytes) -> str | None:
    """Calls; returns the failure message, or None."""
    keep: list[Any] = []
    status = Status()
    arguments = ctypes.addressof(buffers.pointers(operands, keep))
    _Function(address)(buffers.pointer(out, keep), arguments, status.address, 0, status.address)
    return status.message
