"""The ABI of accelerators: `void f(void* stream, void** buffers, const char* opaque, size_t opaque_len[, status])`.

`buffers` has the device address of every array of the operands, then of the result: the leaves of their tuples in
pre-order, null for tokens. The function enqueues its work on `stream`. It is the same whatever the device is. Typed
handlers get the call frame that they get on the host, with device addresses, and ask for the stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from xloom.calls.call_version import TYPED, call_version
from xloom.calls.registry import Registration, place
from xloom.calls.status import Status
from xloom.errors import UnsupportedError
from xloom.hlo.instruction import Instruction

_ARGUMENTS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
_Function = ctypes.CFUNCTYPE(None, *_ARGUMENTS)
_StatusFunction = ctypes.CFUNCTYPE(None, *_ARGUMENTS, ctypes.c_void_p)
_WITHOUT_STATUS = "API_VERSION_ORIGINAL"
_WITH_STATUS = ("API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED")
_VERSIONS = (_WITHOUT_STATUS, *_WITH_STATUS, TYPED)


def call(
    registration: Registration, instruction: Instruction, stream: int, addresses: Sequence[int], opaque: bytes
) -> str | None:
    """Calls a function that is not typed with these buffers; returns the failure message, or None."""
    version = checked_version(registration, instruction)
    assert version != TYPED, "its handler gets a call frame"
    buffers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
    given = (stream, ctypes.addressof(buffers), opaque, len(opaque))
    if version == _WITHOUT_STATUS and registration.abi is not None:
        _Function(registration.address)(*given)
        return None
    # code whose ABI is not known may have a status
    status = Status()
    _StatusFunction(registration.address)(*given, status.address)
    return status.message


def checked_version(registration: Registration, instruction: Instruction) -> str:
    """The call's `api_version`. Raises when the native function has another, or devices are not called that way."""
    version = instruction["api_version"]
    if version not in _VERSIONS:
        raise UnsupportedError(
            f"custom call {registration.name!r} on {registration.platform} says {version}",
            where=place(instruction),
            hint=f"supported there: {', '.join(_VERSIONS)}",
        )
    return call_version(registration, instruction)
