"""PJRT_Memory_*: not opaque, its first word points to functions that keep the caller's data."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.pjrt.capi import guard
from xloom.pjrt.capi.handles import lasting, objects
from xloom.pjrt.capi.memory import Row, Text, new, struct
from xloom.pjrt.capi.slots import slot
from xloom.pjrt.memory_space import MemorySpace

_GET = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_SET = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)

_user_data: dict[tuple[int, int], tuple[int, int]] = {}


def _get_user_data(memory: int, key: int) -> int | None:
    found = _user_data.get((memory, key))
    return found[0] if found else None


def _set_user_data(memory: int, key: int, data: int, destructor: int) -> None:
    _user_data[memory, key] = (data, destructor)


_functions = {"get_user_data": _GET(_get_user_data), "set_user_data": _SET(_set_user_data)}
for _name, _function in _functions.items():
    guard.register(f"memory_{_name}", _function)
table = new(
    "PJRT_Memory_FunctionTable",
    instance_struct_size=ctypes.sizeof(struct("PJRT_Memory")),
)


def fill_table() -> None:
    """Puts the functions into the table that every memory points to."""
    for name in _functions:
        setattr(table, name, guard.address(f"memory_{name}"))


class _View:
    def __init__(self, memory: MemorySpace):
        self.memory = memory
        self.cell = struct("PJRT_Memory")(ctypes.addressof(table))
        self.kind = Text(memory.kind)
        self.text = Text(str(memory))
        self.devices = Row.pointers(lasting(device) for device in memory.devices)


_handles: dict[int, int] = {}


def memory_handle(memory: MemorySpace) -> int:
    """The one handle of a memory space."""
    handle = _handles.get(id(memory))
    if handle is None:
        view = _View(memory)
        handle = _handles[id(memory)] = ctypes.addressof(view.cell)
        objects[handle] = view
    return handle


def memory_of(handle: int) -> MemorySpace:
    """The memory space behind a handle."""
    return objects[handle].memory


@slot("PJRT_Memory_Id")
def memory_id(args: Any) -> None:
    """Its number."""
    args.id = objects[args.memory].memory.id


@slot("PJRT_Memory_Kind")
def kind(args: Any) -> None:
    """Its kind's name."""
    text = objects[args.memory].kind
    args.kind, args.kind_size = text.address, text.size


@slot("PJRT_Memory_Kind_Id")
def kind_id(args: Any) -> None:
    """Its kind's number."""
    args.kind_id = objects[args.memory].memory.kind_id


@slot("PJRT_Memory_DebugString")
def debug_string(args: Any) -> None:
    """For logs."""
    text = objects[args.memory].text
    args.debug_string, args.debug_string_size = text.address, text.size


@slot("PJRT_Memory_ToString")
def to_string(args: Any) -> None:
    """For users."""
    text = objects[args.memory].text
    args.to_string, args.to_string_size = text.address, text.size


@slot("PJRT_Memory_AddressableByDevices")
def addressable_by_devices(args: Any) -> None:
    """Who can use it."""
    row = objects[args.memory].devices
    args.devices, args.num_devices = row.address, row.size
