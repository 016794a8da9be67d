"""The profiler extension: a trace for whoever profiles the process, such as `jax.profiler.trace`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import Text, new, struct
from xloom.pjrt.capi.handles import drop, objects, put
from xloom.pjrt.xspace import xspace
from xloom.trace import Trace, trace

_PLANE = "/device:CUSTOM:xloom"
"""Its prefix is what viewers know planes of plugins by."""
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _Profiler:
    """One profile."""

    def __init__(self) -> None:
        self._taking = ExitStack()
        self._taken: Trace | None = None
        self.data = Text(b"")

    def start(self) -> None:
        """Begins to take a trace."""
        self._taken = self._taking.enter_context(trace())

    def stop(self) -> None:
        """Ends the trace, and keeps it as a serialised XSpace."""
        self._taking.close()
        if self._taken is not None:
            self.data = Text(xspace(self._taken, _PLANE))
            self._taken = None


def _create(args: Any) -> None:
    args.profiler = put(_Profiler())


def _destroy(args: Any) -> None:
    found = drop(args.profiler)
    if found is not None:
        found.stop()


def _start(args: Any) -> None:
    objects[args.profiler].start()


def _stop(args: Any) -> None:
    objects[args.profiler].stop()


def _collect_data(args: Any) -> None:
    """To a buffer; without one it says how large that must be, and where the data is, which jaxlib reads there."""
    data = objects[args.profiler].data
    if args.buffer:
        ctypes.memmove(args.buffer, data.address, data.size)
    else:
        args.buffer, args.buffer_size_in_bytes = data.address, data.size


_BODIES = {
    "create": ("Create", _create),
    "destroy": ("Destroy", _destroy),
    "start": ("Start", _start),
    "stop": ("Stop", _stop),
    "collect_data": ("CollectData", _collect_data),
}
"""By field of the table."""


def _entry(name: str, body: Callable[[Any], None]) -> Any:
    # callers leave the size of the arguments' structure as it was in their memory, so that it is not looked at
    read = struct(f"PLUGIN_Profiler_{name}_Args").from_address
    return _FUNCTION(lambda address: body(read(address)))


for _field, _row in _BODIES.items():
    native_library.register(f"profiler_{_field}", _entry(*_row))


def extension() -> Any:
    """The extension, which keeps the table of functions that it points to."""
    table = new("PLUGIN_Profiler_Api")
    # older callers demand the size that it had then, newer ones at least that; they crash where they do not find it
    table.struct_size = type(table).consume.offset
    for field, kind in table._fields_:
        if kind is ctypes.c_void_p and field.startswith("error_"):
            setattr(table, field, native_library.address(native_library.NOTHING))  # there are no errors
    for field in _BODIES:
        setattr(table, field, native_library.address(f"profiler_{field}"))
    made = struct("PJRT_Profiler_Extension")(profiler_api=ctypes.addressof(table))
    made.table = table
    return made
