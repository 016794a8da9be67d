"""PJRT_Api: the table that a plugin is."""

from __future__ import annotations

import atexit
import ctypes
from functools import cache, partial
from typing import Any

from xloom import trace
from xloom.calls import sanitizer
from xloom.pjrt.capi import (  # noqa: F401 - each registers its entries
    async_transfers,
    buffer_handles,
    buffers,
    call_log,
    clients,
    devices,
    error_entries,
    errors,
    events,
    executables,
    execution,
    memories,
    native_library,
    topologies,
)
from xloom.pjrt.capi.ctypes_structs import new
from xloom.pjrt.capi.entry_points import declare
from xloom.pjrt.capi.extensions import chain, entries
from xloom.pjrt.capi.handles import objects
from xloom.pjrt.capi.host_buffer_ir import PYTHON_ONLY
from xloom.pjrt.capi.structs import MAJOR, MINOR, STRUCTS

_reasons: set[str] = set()


def _entry_names() -> list[str]:
    fields = [field.split(":")[0] for field in STRUCTS["PJRT_Api"].split()]
    return [field for field in fields if field.startswith("PJRT_")]


@cache
def api() -> Any:
    """The table, with a function in every entry."""
    table = new("PJRT_Api")
    table.pjrt_api_version = new("PJRT_Api_Version", major_version=MAJOR, minor_version=MINOR)
    declare([*_entry_names(), *entries()])
    call_log.declare(_entry_names())
    for name in _entry_names():
        setattr(table, name, call_log.address(name))
    errors.fill_table()
    trace.watch(partial(_python_sees_all, "a trace"))
    sanitizer.watch(partial(_python_sees_all, "the sanitizer"))
    memories.fill_table()
    extensions = chain()
    table.extension_start = ctypes.addressof(extensions[0])
    for kept in (table, extensions, native_library.library(), objects, buffer_handles.records):
        # they may be used after Python's end, when the order of finalisers is unknown
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    atexit.register(_retire)
    return table


def api_address() -> int:
    """The address of the PJRT_Api."""
    return ctypes.addressof(api())


def resume() -> None:
    """Goes on after Python's exit functions, one of which may use JAX after ours, or whose caller goes on himself."""
    if native_library.resume():
        atexit.register(_retire)


def _python_sees_all(reason: str, holds: bool) -> None:
    """Whether Python must see every call, which takes longer, for this reason."""
    (_reasons.add if holds else _reasons.discard)(reason)
    ctypes.c_int64.from_address(native_library.address(PYTHON_ONLY)).value = bool(_reasons)


def _retire() -> None:
    """Ends all work: jaxlib still calls while Python goes away."""
    try:
        for view in list(objects.values()):  # at once: other threads still drop some
            if isinstance(view, clients.ClientView):
                view.client.close()
    finally:
        native_library.retire()
