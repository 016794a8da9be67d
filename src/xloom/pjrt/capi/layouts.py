"""The layouts extension: arrays are dense, so that a layout is an order of dimensions."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from xloom.hlo.shape import Shape
from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import Text
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.handles import objects
from xloom.pjrt.capi.native_structs import LAYOUT

ENTRIES = [
    "PJRT_Layouts_MemoryLayout_Destroy",
    "PJRT_Layouts_MemoryLayout_Serialize",
    "PJRT_Layouts_PJRT_Client_GetDefaultLayout",
    "PJRT_Layouts_PJRT_Buffer_MemoryLayout",
    "PJRT_Layouts_PJRT_Topology_GetDefaultLayout",
    "PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
    "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
]


class _Layout:
    """A layout in C memory, never freed: a getter has its text."""

    def __init__(self, major_to_minor: tuple[int, ...]):
        self._text = Text(f"{{{','.join(map(str, reversed(major_to_minor)))}}}")
        deleter = native_library.address(native_library.NOTHING)
        self._struct = LAYOUT.new(text=self._text.address, size=self._text.size, deleter=deleter)
        self.address = ctypes.addressof(self._struct)


@cache
def _layout(major_to_minor: tuple[int, ...]) -> _Layout:
    return _Layout(major_to_minor)


def layout_handle(shape: Shape) -> int:
    """The handle of the layout of arrays of that shape."""
    return _layout(shape.major_to_minor if shape.is_permuted else tuple(range(shape.rank))).address


def _default_layout(rank: int) -> int:
    return _layout(tuple(range(rank))).address


@entry_point("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
def client_default_layout(args: Any) -> None:
    """The layout that arrays of a type and dimensions have on a client's devices unless told."""
    args.layout = _default_layout(args.num_dims)


@entry_point("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def topology_default_layout(args: Any) -> None:
    """The layout that arrays of a type and dimensions have on a topology's devices unless told."""
    args.layout = _default_layout(args.num_dims)


@entry_point("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
def output_layouts(args: Any) -> None:
    """The layouts of an executable's results."""
    row = objects[args.executable].output_layouts
    args.num_outputs, args.layouts = row.size, row.address


@entry_point("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
def parameter_layouts(args: Any) -> None:
    """The layouts of an executable's parameters."""
    row = objects[args.executable].parameter_layouts
    args.num_parameters, args.layouts = row.size, row.address
