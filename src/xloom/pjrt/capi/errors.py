"""PJRT_Error: not opaque, its first word points to functions."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.errors import DistributedError, XloomError
from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import Text, new, struct
from xloom.pjrt.error import code_of
from xloom.pjrt.future import Future
from xloom.status_code import Code

_alive: dict[int, tuple[Any, Text, Code]] = {}

_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t))
_GET_CODE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_FOR_EACH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def new_error(error: BaseException) -> int:
    """The address of a PJRT_Error, which the caller destroys."""
    _tell(error)
    return noted_error(error)


def tell(future: Future) -> None:
    """A caller has asked for what comes of a future, or for its error."""
    if future.error is not None:
        _tell(future.error)


def _tell(error: BaseException) -> None:
    if isinstance(error, DistributedError):
        error.is_told = True


def noted_error(error: BaseException) -> int:
    """The same where the caller keeps books, and no result has been asked for: it is not told."""
    known = isinstance(error, XloomError)  # others' messages may be a number, of sys.exit(0) in a callback, or nothing
    return made(code_of(error), str(error) if known else f"{type(error).__name__}: {error}")


def unimplemented(name: str) -> int:
    """What unimplemented functions return."""
    return made(Code.UNIMPLEMENTED, f"{name} is not implemented by xloom")


def made(code: Code, message: str) -> int:
    """The address of a new PJRT_Error."""
    cell = struct("PJRT_Error")(ctypes.addressof(table))
    address = ctypes.addressof(cell)
    _alive[address] = (cell, Text(message), code)
    return address


def destroy(address: int | None) -> None:
    """Forgets an error; NULL is allowed."""
    _alive.pop(address or 0, None)


def message(address: int) -> Text:
    """The text of the error at an address, which lives as long as that."""
    return _alive[address][1]


def code(address: int) -> Code:
    """The status code of the error at an address."""
    return _alive[address][2]


def _message(address: int, text: Any, size: Any) -> None:
    text[0], size[0] = message(address).address, message(address).size


_functions = {
    "destroy": _DESTROY(destroy),
    "message": _MESSAGE(_message),
    "get_code": _GET_CODE(code),
    "for_each_payload": _FOR_EACH(lambda *_: None),
}
for _name, _function in _functions.items():
    native_library.register(f"error_{_name}", _function)
table = new(
    "PJRT_Error_FunctionTable",
    instance_size=ctypes.sizeof(struct("PJRT_Error")),
)


def fill_table() -> None:
    """Puts the functions into the table that every error points to."""
    for name in _functions:
        setattr(table, name, native_library.address(f"error_{name}"))
