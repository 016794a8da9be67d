"""Custom calls: code registered under a name and a platform, in each of XLA's ABIs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xloom.calls.jaxlib_handlers import register_jaxlib_handler
from xloom.calls.registry import Registration, add_source, is_registered, lookup, registered, remove, unregistered

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
    "custom_call": "python_source",
    "ffi_user_data": "typed_ffi",
    "include_dir": "c_compiler",
    "load_library": "shared_library",
    "load_source": "c_source",
    "register_c": "c_source",
    "register_ffi_type": "typed_ffi",
    "register_pointer": "pointers",
    "register_symbol": "shared_library",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'xloom.calls' has no attribute {name!r}")
    found = getattr(import_module(f"xloom.calls.{_LAZY[name]}"), name)
    globals()[name] = found
    return found


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
