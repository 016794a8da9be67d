"""Bytes that the caller gets together with the function that frees them."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import Text
from xloom.pjrt.capi.handles import drop, put


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(handle: int) -> None:
    drop(handle)


native_library.register("delete_owned", _delete)


def return_serialized(args: Any, name: str, data: bytes) -> None:
    """Fills `serialized_bytes`, `<name>`, and `<name>_deleter` of an argument structure."""
    text = Text(data)
    args.serialized_bytes, args.serialized_bytes_size = text.address, text.size
    setattr(args, name, put(text))
    setattr(args, f"{name}_deleter", native_library.address("delete_owned"))
