"""The status object that native custom calls report failures through; see include/xloom/custom_call.h."""

from __future__ import annotations

import ctypes


class _Struct(ctypes.Structure):
    pass


_SetSuccess = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Struct))
_SetFailure = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Struct), ctypes.c_void_p, ctypes.c_size_t)
_Struct._fields_ = [("set_success", _SetSuccess), ("set_failure", _SetFailure)]
_strnlen = ctypes.CDLL(None).strnlen
_strnlen.restype, _strnlen.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t]


class Status:
    """A fresh status: `message` is None as long as the call has not failed."""

    def __init__(self) -> None:
        self.message: str | None = None
        # the callbacks must live as long as the call
        self._struct = _Struct(_SetSuccess(self._success), _SetFailure(self._failure))

    @property
    def address(self) -> int:
        """What the callee gets."""
        return ctypes.addressof(self._struct)

    def _success(self, status: object) -> None:
        self.message = None

    def _failure(self, status: object, message: int | None, size: int) -> None:
        self.message = message_text(message, size)


def message_text(message: int | None, size: int) -> str:
    """The text of a failure message in memory."""
    # one shorter than it says ends at its NUL, behind which memory may not be readable
    data = ctypes.string_at(message, _strnlen(message, size)) if message else b""
    return data.decode("utf-8", "replace")
