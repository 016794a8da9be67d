"""The method log of the C API: each entry with what it is given and what it gives."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any

from xloom.pjrt.capi import errors, native_library
from xloom.pjrt.capi.ctypes_structs import int64s_at, struct, text_at
from xloom.pjrt.capi.entry_points import FUNCTION
from xloom.pjrt.capi.handles import objects
from xloom.pjrt.capi.structs import BUFFER_TYPES, ERROR_CODES, HOST_BUFFER_SEMANTICS, STRUCTS
from xloom.pjrt.log import is_enabled, method_log

_PREFIX = "log_"
_TEXTS = frozenset({"code", "format", "message", "kind", "platform_name", "platform_version", "to_string"})
_TEXTS |= {"debug_string", "device_kind", "executable_name", "executable_fingerprint"}
_NOT_VALUES = frozenset({"struct_size", "extension_start"})
_NUMBERS = frozenset({"dims", "shape_dims", "unpadded_dims", "byte_strides", "dynamic_dim_indices"})
_HANDLES = frozenset({"devices", "addressable_devices", "addressable_memories", "memories"})
_NAMES = {"type": BUFFER_TYPES, "host_buffer_semantics": HOST_BUFFER_SEMANTICS, "code": ERROR_CODES}
_NAMES |= {"element_type": BUFFER_TYPES, "shape_element_type": BUFFER_TYPES, "error_code": ERROR_CODES}
_wrapped: set[str] = set()


def declare(names: Iterable[str]) -> None:
    """Makes functions that tell of each call of an entry, if the environment asks for it."""
    if is_enabled():
        for name in names:
            native_library.register(f"{_PREFIX}{name}", FUNCTION(_telling(name)))
            _wrapped.add(name)


def address(name: str) -> int:
    """The function for an entry, which may be one that tells."""
    return native_library.address(f"{_PREFIX}{name}" if name in _wrapped else name)


def _telling(name: str) -> Any:
    fields = [field.split(":") for field in STRUCTS.get(f"{name}_Args", "").split()]
    inputs = [field for field, kind in fields if not kind.endswith(">")]
    results = [field for field, kind in fields if kind.endswith(">")]

    def call(at: int) -> int | None:
        args = struct(f"{name}_Args").from_address(at) if fields else None
        method_log.begin(f"{name}({_values(args, inputs)})")
        error = _native(name)(at)
        method_log.end(f"PJRT_Error({_message(error)})" if error else _values(args, results))
        return error

    return call


def _message(error: int) -> str:
    text = errors.message(error)
    return text_at(text.address, text.size)


@cache
def _native(name: str) -> Any:
    return FUNCTION(native_library.address(name))


def _values(args: Any, fields: list[str]) -> str:
    counts = {f"num_{field}" for field in fields if field in _NUMBERS | _HANDLES}
    hidden = _NOT_VALUES | counts | {f"{field}_size" for field in fields}
    shown = {field: _value(args, field) for field in fields if field not in hidden}
    return ", ".join(f"{field}={text}" for field, text in shown.items() if text)


def _value(args: Any, field: str) -> str:
    """The value in few words; nothing for a pointer to what only C knows."""
    value = getattr(args, field)
    if field in _NAMES:
        return _NAMES[field].split()[value]
    if dict(args._fields_)[field] is not ctypes.c_void_p:
        return str(value) if isinstance(value, int | float) else ""
    if field in _NUMBERS and hasattr(args, f"num_{field}"):
        return str(list(int64s_at(value, getattr(args, f"num_{field}"))))
    if not value:
        return ""
    if field in _TEXTS and hasattr(args, f"{field}_size"):
        return repr(text_at(value, getattr(args, f"{field}_size")))
    if field in _HANDLES and hasattr(args, f"num_{field}"):
        handles = (ctypes.c_size_t * getattr(args, f"num_{field}")).from_address(value)
        return f"[{', '.join(_label(handle) for handle in handles)}]"
    if field == "program":
        program = struct("PJRT_Program").from_address(value)
        return f"<{text_at(program.format, program.format_size)}>"
    return _label(value)


def _label(handle: int) -> str:
    found = objects.get(handle)
    for part in ("client", "loaded", "executable", "memory"):  # what a view is of
        if type(found).__name__.endswith("View"):
            found = getattr(found, part, found)
    return "" if found is None or isinstance(found, int | dict) else method_log.label(found)
