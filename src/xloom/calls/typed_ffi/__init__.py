"""ABI `typed-ffi`: handlers compiled from the headers of XLA's FFI run unchanged."""

from typing import TYPE_CHECKING

from xloom.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from xloom.calls.typed_ffi.call_site import CallSite, arrays_and_tokens, outcome
    from xloom.calls.typed_ffi.context import Execution, Owner, ffi_user_data
    from xloom.calls.typed_ffi.device import HOST, Device
    from xloom.calls.typed_ffi.types import register_ffi_type

__all__ = [
    "HOST",
    "CallSite",
    "Device",
    "Execution",
    "Owner",
    "arrays_and_tokens",
    "ffi_user_data",
    "outcome",
    "register_ffi_type",
]

# what needs a file of this package, attributes of calls say, does not need the interface
_LAZY = {
    "HOST": "xloom.calls.typed_ffi.device",
    "CallSite": "xloom.calls.typed_ffi.call_site",
    "Device": "xloom.calls.typed_ffi.device",
    "Execution": "xloom.calls.typed_ffi.context",
    "Owner": "xloom.calls.typed_ffi.context",
    "arrays_and_tokens": "xloom.calls.typed_ffi.call_site",
    "ffi_user_data": "xloom.calls.typed_ffi.context",
    "outcome": "xloom.calls.typed_ffi.call_site",
    "register_ffi_type": "xloom.calls.typed_ffi.types",
}

__getattr__ = lazy_attributes(__name__, _LAZY)
