"""ABI `typed-ffi`: handlers compiled from the headers of XLA's FFI run unchanged."""

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
