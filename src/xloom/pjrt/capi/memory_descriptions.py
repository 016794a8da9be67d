"""The extension that tells the memories of devices that need not be present."""

from __future__ import annotations

from typing import Any

from xloom.pjrt.capi.ctypes_structs import CArray, Text
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.handles import objects, put
from xloom.pjrt.memory_space import KINDS

ENTRIES = ["PJRT_DeviceDescription_MemoryDescriptions", "PJRT_MemoryDescription_Kind"]

_names = [Text(kind) for kind in KINDS]
_handles = CArray.pointers(put(k) for k in range(len(KINDS)))


@entry_point("PJRT_DeviceDescription_MemoryDescriptions")
def memory_descriptions(args: Any) -> None:
    """The kinds of memory, which all devices have; the first is the default."""
    args.memory_descriptions, args.num_memory_descriptions = _handles.address, _handles.size
    args.default_memory_index = 0


@entry_point("PJRT_MemoryDescription_Kind")
def kind(args: Any) -> None:
    """A kind's name and number."""
    number = objects[args.memory_description]
    args.kind, args.kind_size, args.kind_id = _names[number].address, _names[number].size, number
