"""The FFI extension: handlers of custom calls, and data for them."""

from __future__ import annotations

from typing import Any

from xloom.calls import register_pointer
from xloom.pjrt.capi.ctypes_structs import text_at
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.handles import objects

ENTRIES = ["PJRT_FFI_Type_Register", "PJRT_FFI_UserData_Add", "PJRT_FFI_Register_Handler"]


@entry_point("PJRT_FFI_UserData_Add")
def user_data_add(args: Any) -> None:
    """Puts data into an execution's context."""
    objects[args.context][args.user_data.type_id] = args.user_data.data


@entry_point("PJRT_FFI_Register_Handler")
def register_handler(args: Any) -> None:
    """Registers a typed FFI handler for custom calls of its name."""
    register_pointer(text_at(args.target_name, args.target_name_size), args.handler, abi="typed-ffi")
