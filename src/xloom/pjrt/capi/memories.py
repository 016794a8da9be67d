"""PJRT_Memory_*: not opaque, its first word points to functions that keep the caller's data."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import CArray, Text, new, struct
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.handles import intern_handle, objects
from xloom.pjrt.capi.native_structs import MEMORY, USER_DATA
from xloom.pjrt.memory_space import MemorySpace

_SET = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
_FIRST_KEY = MEMORY.offset("key0") // 8


@_SET
def _set_user_data(memory: int, key: int, data: int, destructor: int) -> None:
    """Keeps data that lives as long as the memory: native code looks it up."""
    record = objects[memory].record
    for k in range(_FIRST_KEY, MEMORY.size // 8, 2):
        if record[k] in (0, key):
            record[k + 1], record[k] = data or 0, key
            return
    raise AssertionError(f"a memory has room for {USER_DATA} keys")


native_library.register("memory_set_user_data", _set_user_data)
table = new(
    "PJRT_Memory_FunctionTable",
    instance_struct_size=ctypes.sizeof(struct("PJRT_Memory")),
)


def fill_table() -> None:
    """Puts the functions into the table that every memory points to."""
    for name in ("get_user_data", "set_user_data"):
        setattr(table, name, native_library.address(f"memory_{name}"))


class _View:
    def __init__(self, memory: MemorySpace):
        self.memory = memory
        self.kind = Text(memory.kind)
        self.record = MEMORY.new(
            vtable=ctypes.addressof(table),
            id=memory.id,
            kind_id=memory.kind_id,
            kind=self.kind.address,
            kind_size=self.kind.size,
        )
        self.to_string, self.debug_string = Text(memory.name), Text(memory.description)
        self.devices = CArray.pointers(intern_handle(device) for device in memory.devices)


_handles: dict[int, int] = {}


def memory_handle(memory: MemorySpace) -> int:
    """The handle of a memory space, the same each time."""
    handle = _handles.get(id(memory))
    if handle is None:
        view = _View(memory)
        handle = _handles[id(memory)] = ctypes.addressof(view.record)
        objects[handle] = view
    return handle


def memory_of(handle: int) -> MemorySpace:
    """The memory space behind a handle."""
    return objects[handle].memory


@entry_point("PJRT_Memory_DebugString")
def debug_string(args: Any) -> None:
    """The memory space's name in logs."""
    text = objects[args.memory].debug_string
    args.debug_string, args.debug_string_size = text.address, text.size


@entry_point("PJRT_Memory_ToString")
def to_string(args: Any) -> None:
    """The memory space's name for users."""
    text = objects[args.memory].to_string
    args.to_string, args.to_string_size = text.address, text.size


@entry_point("PJRT_Memory_AddressableByDevices")
def addressable_by_devices(args: Any) -> None:
    """The devices that can use a memory space."""
    row = objects[args.memory].devices
    args.devices, args.num_devices = row.address, row.size
