"""Which Python function does what entry of PJRT's tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from xloom.pjrt.capi import errors, getters, guard, native_entries
from xloom.pjrt.capi.memory import struct
from xloom.pjrt.capi.native_module import IN_PYTHON

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
Body = Callable[[Any], None]

bodies: dict[str, Body] = {}
"""By name of the entry: a function of its arguments' structure, which holds the results too."""


def slot(name: str) -> Callable[[Body], Body]:
    """Registers the decorated function; what it raises becomes a PJRT_Error."""

    def register(body: Body) -> Body:
        bodies[name] = body
        return body

    return register


def declare(names: Iterable[str]) -> None:
    """Makes C functions for entries: what is registered, or one that says that nothing is.

    Those that only read are native code already; others are for what native code leaves to Python."""
    for name in names:
        if name in native_entries.NAMES:
            guard.register(f"{name}{IN_PYTHON}", FUNCTION(_entry(name)))
        elif name not in getters.NAMES:
            guard.register(name, FUNCTION(_entry(name)))


def _entry(name: str) -> Callable[[int], int | None]:
    body = bodies.get(name)
    if body is None:
        return lambda _: errors.unimplemented(name)
    read = struct(f"{name}_Args").from_address

    def call(address: int) -> int | None:
        try:
            body(read(address))
        except BaseException as error:  # the caller is C++
            return errors.new_error(error)
        return None

    return call
