"""The layouts extension: arrays are dense and row-major, so that a layout is a rank."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from xloom.pjrt.capi import guard
from xloom.pjrt.capi.handles import objects
from xloom.pjrt.capi.memory import Text
from xloom.pjrt.capi.slots import slot
from xloom.pjrt.capi.words import LAYOUT

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
    """A layout in C memory, which nobody frees: a getter has its text."""

    def __init__(self, rank: int):
        self._text = Text(f"{{{','.join(map(str, range(rank - 1, -1, -1)))}}}")
        deleter = guard.address(guard.NOTHING)
        self._words = LAYOUT.row(text=self._text.address, size=self._text.size, deleter=deleter)
        self.address = ctypes.addressof(self._words)


@cache
def _layout(rank: int) -> _Layout:
    return _Layout(rank)


def layout_handle(rank: int) -> int:
    """The handle of the layout of arrays of that rank."""
    return _layout(rank).address


@slot("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
def client_default_layout(args: Any) -> None:
    """Of arrays of some type and dimensions."""
    args.layout = layout_handle(args.num_dims)


@slot("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def topology_default_layout(args: Any) -> None:
    """The same."""
    args.layout = layout_handle(args.num_dims)


@slot("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
def output_layouts(args: Any) -> None:
    """Of a program's results."""
    row = objects[args.executable].output_layouts
    args.num_outputs, args.layouts = row.size, row.address


@slot("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
def parameter_layouts(args: Any) -> None:
    """Of its parameters."""
    row = objects[args.executable].parameter_layouts
    args.num_parameters, args.layouts = row.size, row.address
