"""PJRT_Device_* and PJRT_DeviceDescription_*."""

from __future__ import annotations

from functools import cache
from typing import Any

from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import CArray, NamedValues, Text
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.handles import intern_handle, objects
from xloom.pjrt.capi.memories import memory_handle
from xloom.pjrt.compiler import STATISTICS
from xloom.pjrt.device import Device, DeviceDescription
from xloom.pjrt.error import PjrtError
from xloom.status_code import Code


class _DescriptionView:
    def __init__(self, description: DeviceDescription):
        self.kind = Text(description.kind)
        self.to_string = Text(f"{description.platform.capitalize()}Device(id={description.id})")
        self.debug_string = Text(str(description))
        self.attributes = NamedValues(description.attributes.items())


_views: dict[int, _DescriptionView] = {}


def _view(handle: int) -> _DescriptionView:
    if handle not in _views:
        _views[handle] = _DescriptionView(objects[handle])
    return _views[handle]


@entry_point("PJRT_DeviceDescription_Id")
def description_id(args: Any) -> None:
    """The device's number in its client."""
    args.id = objects[args.device_description].id


@entry_point("PJRT_DeviceDescription_ProcessIndex")
def description_process_index(args: Any) -> None:
    """The number of the device's process."""
    args.process_index = objects[args.device_description].process_index


@entry_point("PJRT_DeviceDescription_Attributes")
def description_attributes(args: Any) -> None:
    """The device's attributes by name."""
    values = _view(args.device_description).attributes
    args.attributes, args.num_attributes = values.address, values.size


@entry_point("PJRT_DeviceDescription_Kind")
def description_kind(args: Any) -> None:
    """The kind of device, as its compiler calls it."""
    text = _view(args.device_description).kind
    args.device_kind, args.device_kind_size = text.address, text.size


@entry_point("PJRT_DeviceDescription_DebugString")
def description_debug_string(args: Any) -> None:
    """The device's name in logs."""
    text = _view(args.device_description).debug_string
    args.debug_string, args.debug_string_size = text.address, text.size


@entry_point("PJRT_DeviceDescription_ToString")
def description_to_string(args: Any) -> None:
    """The device's name for users."""
    text = _view(args.device_description).to_string
    args.to_string, args.to_string_size = text.address, text.size


@entry_point("PJRT_Device_GetDescription")
def get_description(args: Any) -> None:
    """The description of a device."""
    args.device_description = intern_handle(objects[args.device].description)


@entry_point("PJRT_Device_IsAddressable")
def is_addressable(args: Any) -> None:
    """Whether the device takes work from this process."""
    args.is_addressable = objects[args.device].is_addressable


@entry_point("PJRT_Device_LocalHardwareId")
def local_hardware_id(args: Any) -> None:
    """The device's number in this process."""
    args.local_hardware_id = objects[args.device].local_hardware_id


@cache
def _memories(device: Device) -> CArray:
    return CArray.pointers(memory_handle(m) for m in device.memory_spaces)


@entry_point("PJRT_Device_AddressableMemories")
def addressable_memories(args: Any) -> None:
    """The memory spaces of a device."""
    row = _memories(objects[args.device])
    args.memories, args.num_memories = row.address, row.size


@entry_point("PJRT_Device_DefaultMemory")
def default_memory(args: Any) -> None:
    """The memory space that arrays of a device are in unless told."""
    args.memory = memory_handle(objects[args.device].default_memory)


@entry_point("PJRT_Device_MemoryStats")
def memory_stats(args: Any) -> None:
    """Bytes and counts of a device's memory. Raises PjrtError where that is the host's."""
    found = objects[args.device].memory_stats()
    if found is None:
        hint = "it uses the host's memory, which the operating system counts"
        raise PjrtError(Code.UNIMPLEMENTED, f"{objects[args.device]} has no memory of its own", hint=hint)
    for name in STATISTICS:
        setattr(args, name, found.get(name, 0))
        if name != "bytes_in_use":  # which has to be known
            setattr(args, f"{name}_is_set", name in found)


@entry_point("PJRT_Device_GetAttributes")
def get_attributes(args: Any) -> None:
    """A device's attributes: there are none. The function must be there, for an error is fatal."""
    args.attributes, args.num_attributes, args.device_attributes = None, 0, None
    args.attributes_deleter = native_library.address(native_library.NOTHING)
