"""The layouts extension: arrays are dense and row-major, so that a layout is a rank."""

from __future__ import annotations

from typing import Any

from xloom.pjrt.capi.handles import drop, objects, put
from xloom.pjrt.capi.owned import hand_over
from xloom.pjrt.capi.slots import slot

ENTRIES = [
    "PJRT_Layouts_MemoryLayout_Destroy",
    "PJRT_Layouts_MemoryLayout_Serialize",
    "PJRT_Layouts_PJRT_Client_GetDefaultLayout",
    "PJRT_Layouts_PJRT_Buffer_MemoryLayout",
    "PJRT_Layouts_PJRT_Topology_GetDefaultLayout",
    "PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
    "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
]


@slot("PJRT_Layouts_MemoryLayout_Destroy")
def destroy(args: Any) -> None:
    """Frees it."""
    drop(args.layout)


@slot("PJRT_Layouts_MemoryLayout_Serialize")
def serialize(args: Any) -> None:
    """As HLO text writes it."""
    order = ",".join(map(str, range(objects[args.layout] - 1, -1, -1)))
    hand_over(args, "serialized_layout", f"{{{order}}}".encode())


@slot("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
def client_default_layout(args: Any) -> None:
    """Of arrays of some type and dimensions."""
    args.layout = put(args.num_dims)


@slot("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def topology_default_layout(args: Any) -> None:
    """The same."""
    args.layout = put(args.num_dims)


@slot("PJRT_Layouts_PJRT_Buffer_MemoryLayout")
def buffer_layout(args: Any) -> None:
    """Of a buffer."""
    args.layout = put(objects[args.buffer].shape.rank)


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
