"""The ABIs on Host that report a status: `(out, in, status)`, and unified, `(out, in, opaque, opaque_len, status)`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xloom.calls import buffers
from xloom.calls.status import Status

_Plain = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Unified = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)


def call(address: int, out: Any, operands: Sequence[Any], opaque: bytes) -> str | None:
    """Calls; returns the failure message, or None."""
    keep: list[Any] = []
    status = Status()
    arguments = ctypes.addressof(buffers.pointers(operands, keep))
    _Plain(address)(buffers.pointer(out, keep), arguments, status.address)
    return status.message


def call_unified(address: int, out: Any, operands: Sequence[Any], opaque: bytes) -> str | None:
    """Calls; returns the failure message, or None."""
    keep: list[Any] = []
    status = Status()
    arguments = ctypes.addressof(buffers.pointers(operands, keep))
    _Unified(address)(buffers.pointer(out, keep), arguments, opaque, len(opaque), status.address)
    return status.message
