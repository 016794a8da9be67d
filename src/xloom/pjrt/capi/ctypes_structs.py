"""The structures of `structs` as ctypes types, and strings and arrays in C memory that outlives the call."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from xloom.pjrt.capi.structs import STRUCTS

_TYPES: dict[str, Any] = {
    "P": ctypes.c_void_p,
    "Z": ctypes.c_size_t,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "i": ctypes.c_int32,
    "?": ctypes.c_bool,
    "f": ctypes.c_float,
}


@cache
def struct(name: str) -> Any:
    """The ctypes structure of a row of the table."""
    fields = [field.rstrip(">").split(":") for field in STRUCTS[name].split()]
    return type(
        name, (ctypes.Structure,), {"_fields_": [(field, _TYPES.get(kind) or struct(kind)) for field, kind in fields]}
    )


_LATER = {
    "PJRT_Executable_DeserializeAndLoad_Args": "load_options",
    "PJRT_Executable_GetCompiledMemoryStats_Args": "total_size_in_bytes",
}
"""The first field of a structure that older callers, back to JAX 0.8, have not."""


@cache
def whole_size(name: str) -> int:
    """The bytes of a structure without padding at its end; 0 of one that is not known."""
    if name not in STRUCTS:
        return 0
    last = getattr(struct(name), struct(name)._fields_[-1][0])
    return last.offset + last.size


@cache
def least_size(name: str) -> int:
    """How many bytes a caller's structure has at least; 0 of one that is not known."""
    return getattr(struct(name), _LATER[name]).offset if name in _LATER else whole_size(name)


def new(name: str, **values: Any) -> Any:
    """A structure that knows its size."""
    kind = struct(name)
    return kind(struct_size=ctypes.sizeof(kind), **values)


class Text:
    """A string in C memory."""

    def __init__(self, text: str | bytes):
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        self.size = len(data)
        self._buffer = ctypes.create_string_buffer(data, len(data) + 1)
        self.address = ctypes.addressof(self._buffer)


class CArray:
    """An array of numbers or addresses in C memory."""

    def __init__(self, kind: Any, values: Iterable[int]):
        found = list(values)
        self.size = len(found)
        self._array = (kind * max(1, len(found)))(*found)
        self.address = ctypes.addressof(self._array)

    @staticmethod
    def pointers(values: Iterable[int]) -> CArray:
        """An array of void*."""
        return CArray(ctypes.c_void_p, values)

    @staticmethod
    def int64(values: Iterable[int]) -> CArray:
        """An array of int64_t."""
        return CArray(ctypes.c_int64, values)


class NamedValues:
    """An array of PJRT_NamedValue in C memory."""

    _STRING, _INT64, _INT64_LIST, _FLOAT, _BOOL = range(5)

    def __init__(self, values: Iterable[tuple[str, str | bool | int | float | Sequence[int]]]):
        rows = list(values)
        kind = struct("PJRT_NamedValue")
        self.size = len(rows)
        self._array = (kind * max(1, len(rows)))()
        self._kept: list[Any] = []
        for row, (name, value) in zip(self._array, rows, strict=False):
            key = Text(name)
            row.struct_size, row.name, row.name_size, row.value_size = ctypes.sizeof(kind), key.address, key.size, 1
            self._kept.append(key)
            if isinstance(value, bool):
                row.type, row.value = self._BOOL, int(value)
            elif isinstance(value, int):
                row.type, row.value = self._INT64, value
            elif isinstance(value, float):
                row.type = self._FLOAT
                row.value = int.from_bytes(bytes(ctypes.c_float(value)), "little")
            else:
                held = Text(value) if isinstance(value, str) else CArray.int64(value)
                row.type = self._STRING if isinstance(value, str) else self._INT64_LIST
                row.value, row.value_size = held.address, held.size
                self._kept.append(held)
        self.address = ctypes.addressof(self._array)


def text_at(address: int | None, size: int) -> str:
    """The UTF-8 string of `size` bytes at an address; empty at NULL."""
    return bytes_at(address, size).decode("utf-8", "replace")


def bytes_at(address: int | None, size: int) -> bytes:
    """The `size` bytes at an address; none at NULL."""
    return ctypes.string_at(address, size) if address else b""


def int64s_at(address: int | None, count: int) -> tuple[int, ...]:
    """The `count` int64_t at an address; none at NULL."""
    return tuple((ctypes.c_int64 * count).from_address(address)) if address and count else ()


def named_values_at(address: int | None, count: int) -> dict[str, Any]:
    """The values of an array of PJRT_NamedValue, by name; none at NULL."""
    found = {}
    for row in (struct("PJRT_NamedValue") * count).from_address(address) if address and count else ():
        name = text_at(row.name, row.name_size)
        if row.type == NamedValues._STRING:
            found[name] = text_at(row.value, row.value_size)
        elif row.type == NamedValues._INT64_LIST:
            found[name] = int64s_at(row.value, row.value_size)
        elif row.type == NamedValues._FLOAT:
            found[name] = ctypes.c_float.from_buffer_copy(row.value.to_bytes(8, "little", signed=True)).value
        elif row.type == NamedValues._BOOL:
            found[name] = bool(row.value & 255)
        else:
            found[name] = row.value
    return found
