"""Custom calls: code registered under a name and a platform, in each of XLA's ABIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xloom.calls.jaxlib_handlers import register_jaxlib_handler
from xloom.calls.registry import Registration, add_source, is_registered, lookup, registered, remove, unregistered
from xloom.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from xloom.calls.c_compiler import include_dir
    from xloom.calls.c_source import load_source, register_c
    from xloom.calls.pointers import register_pointer
    from xloom.calls.python_source import custom_call
    from xloom.calls.shared_library import load_library, register_symbol
    from xloom.calls.typed_ffi import ffi_user_data, register_ffi_type

add_source(register_jaxlib_handler)

# what registers code is imported when it is first used: programs without calls need none of it, nor a C compiler
_LAZY = {
    "custom_call": "xloom.calls.python_source",
    "ffi_user_data": "xloom.calls.typed_ffi",
    "include_dir": "xloom.calls.c_compiler",
    "load_library": "xloom.calls.shared_library",
    "load_source": "xloom.calls.c_source",
    "register_c": "xloom.calls.c_source",
    "register_ffi_type": "xloom.calls.typed_ffi",
    "register_pointer": "xloom.calls.pointers",
    "register_symbol": "xloom.calls.shared_library",
}

__getattr__ = lazy_attributes(__name__, _LAZY)

__all__ = [
    "Registration",
    "custom_call",
    "ffi_user_data",
    "include_dir",
    "is_registered",
    "load_library",
    "load_source",
    "lookup",
    "register_c",
    "register_ffi_type",
    "register_pointer",
    "register_symbol",
    "registered",
    "remove",
    "unregistered",
]
