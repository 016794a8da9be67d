"""The key-value store that `PJRT_Client_Create` is given, as C functions."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.errors import DistributedError
from xloom.pjrt.capi import errors
from xloom.pjrt.capi.ctypes_structs import Text, bytes_at, new
from xloom.status_code import Code

_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
def _new_error(code: int, message: int, size: int) -> int:
    return errors.made(Code(code), bytes_at(message, size).decode("utf-8", "replace"))


_NEW_ERROR = ctypes.c_void_p(ctypes.cast(_new_error, ctypes.c_void_p).value)


class CallbackStore:
    """Asks whoever made the client. Lives as long as that may answer: as the client."""

    def __init__(self, args: Any):
        self._get = _CALL(args.kv_get_callback), args.kv_get_user_arg
        self._try_get = _CALL(args.kv_try_get_callback), args.kv_try_get_user_arg
        self._put = _CALL(args.kv_put_callback), args.kv_put_user_arg

    def put(self, key: str, value: str) -> None:
        """Writes a value, once."""
        text = Text(value)
        self._called("KeyValuePut", self._put, key, value=text.address, value_size=text.size)

    def get(self, key: str, timeout: float) -> str:
        """The value, as soon as it is there. Raises DistributedError after `timeout` seconds."""
        return _value(self._called("KeyValueGet", self._get, key, timeout_in_ms=max(1, int(timeout * 1000))))

    def try_get(self, key: str) -> str | None:
        """The value, or None as long as there is none."""
        try:
            return _value(self._called("KeyValueTryGet", self._try_get, key))
        except _NotFoundError:
            return None

    def _called(self, kind: str, callback: tuple[Any, int], key: str, **fields: Any) -> Any:
        function, user = callback
        text = Text(key)
        args = new(
            f"PJRT_{kind}Callback_Args",
            key=text.address,
            key_size=text.size,
            callback_error=ctypes.addressof(_NEW_ERROR),
            user_arg=user,
            **fields,
        )
        error = function(ctypes.addressof(args))
        if error:
            code, message = errors.code(error), errors.message(error)
            text = bytes_at(message.address, message.size).decode("utf-8", "replace")
            errors.destroy(error)
            raise (_NotFoundError if code is Code.NOT_FOUND else DistributedError)(f"{key}: {text}")
        return args


class _NotFoundError(DistributedError):
    """There is no such key yet."""


def _value(args: Any) -> str:
    found = bytes_at(args.value, args.value_size).decode("utf-8", "replace")
    if args.value_deleter_callback:
        _DELETE(args.value_deleter_callback)(args.value)
    return found
