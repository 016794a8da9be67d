"""Types of states and user data: each has a number, and a destructor."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping
from typing import Any

from xloom.calls.pointers import address_of
from xloom.calls.typed_ffi import c_api
from xloom.calls.typed_ffi.errors import Failure
from xloom.errors import CustomCallError
from xloom.status_code import Code

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_ids: dict[str, int] = {}
_deleters: dict[int, int] = {}
_lock = threading.Lock()
# far from the numbers that a copy of XLA in the process gives to the types of the same libraries
_fresh = itertools.count(1 << 32)


def register_ffi_type(name: str, pointers: Mapping[str, Any]) -> int:
    """Registers a type that typed handlers use for states and user data; returns its number.

    `pointers` are PyCapsules, addresses or ctypes objects: "type_id" points to the library's `TypeId`, which is set,
    and "type_info" to its `TypeInfo`. To be done before a program with a call of such a handler is compiled.
    """
    type_id = ctypes.c_int64.from_address(_pointer(pointers["type_id"]))
    info = c_api.TypeInfo.from_address(_pointer(pointers["type_info"])) if "type_info" in pointers else None
    try:
        type_id.value = register(name, type_id.value, info.deleter if info else None)
    except Failure as failure:
        raise CustomCallError(
            f"the type {name!r} cannot be registered: {failure}",
            hint="register it once, before a program that uses it is compiled, with the library's own TypeId",
        ) from None
    return type_id.value


def register(name: str, given: int, deleter: int | None) -> int:
    """The number of a type: the one it has, the one given, or a new one. Raises Failure when they contradict."""
    with _lock:
        known = _ids.get(name)
        if known is None and given in _ids.values():
            raise Failure(Code.ALREADY_EXISTS, f"Type id {given} is of another type than {name}")
        if known is not None and given not in (0, known):
            raise Failure(Code.INVALID_ARGUMENT, f"Type {name} is registered with type id {known}, not {given}")
        number = known or given or next(_fresh)
        _ids[name] = number
        _deleters[number] = deleter or 0
        return number


def name_of(type_id: int) -> str:
    """The name of a type, for messages."""
    return next((name for name, number in _ids.items() if number == type_id), f"number {type_id}")


class State:
    """A value that a handler has made, destroyed with this object."""

    def __init__(self, type_id: int, address: int, keep: Any):
        self.type_id = type_id
        self.address = address
        deleter = _deleters.get(type_id)
        self._delete = _DELETER(deleter) if deleter else None
        self._keep = keep

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self.address)


def _pointer(value: Any) -> int:
    return ctypes.addressof(value) if isinstance(value, ctypes._SimpleCData | ctypes.Structure) else address_of(value)
