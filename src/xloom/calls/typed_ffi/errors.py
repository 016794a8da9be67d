"""Error objects that handlers and the interface's functions return."""

from __future__ import annotations

import ctypes
import threading

from xloom.status_code import Code

_NAMES = {int(code): code.name for code in Code}
_messages: dict[int, tuple[int, ctypes.Array[ctypes.c_char]]] = {}
_lock = threading.Lock()


class Failure(Exception):
    """What a function of the interface reports to the handler that called it."""

    def __init__(self, code: Code, message: str):
        super().__init__(message)
        self.code = code


def create(code: int, message: bytes) -> int:
    """The address of a new error object, which is its message."""
    text = ctypes.create_string_buffer(message)
    address = ctypes.addressof(text)
    with _lock:
        _messages[address] = code, text
    return address


def destroy(error: int | None) -> None:
    """Frees an error object."""
    with _lock:
        _messages.pop(error or 0, None)


def take(error: int) -> str:
    """The text of an error object, `INVALID_ARGUMENT: ...`, which is freed."""
    with _lock:
        code, text = _messages.pop(error)
    return f"{_NAMES.get(code, f'error {code}')}: {text.value.decode('utf-8', 'replace')}"
