"""Which Python function does what entry of PJRT's tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import xloom
from xloom.pjrt.capi import errors, getters, guard, native_entries
from xloom.pjrt.capi.memory import least_size, struct, whole_size
from xloom.pjrt.capi.native_module import IN_PYTHON
from xloom.pjrt.capi.structs import MAJOR, MINOR
from xloom.pjrt.error import PjrtError, invalid

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
Body = Callable[[Any], int | None]

bodies: dict[str, Body] = {}
"""By name of the entry: a function of its arguments' structure, which holds the results too."""


def slot(name: str) -> Callable[[Body], Body]:
    """Registers the decorated function; what it raises becomes a PJRT_Error. One that it returns is already."""

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
    kind = struct(f"{name}_Args")
    read, least, whole = kind.from_address, least_size(f"{name}_Args"), whole_size(f"{name}_Args")

    def call(address: int) -> int | None:
        try:
            args = read(address)
            if args.struct_size < least:
                raise _too_old(name, args.struct_size, least)
            if args.struct_size >= whole:
                return body(args)
            return _call_shorter(body, kind(), address, args.struct_size)
        except BaseException as error:  # the caller is C++
            if isinstance(error, KeyboardInterrupt):
                guard.interrupt_caller()
            return errors.new_error(error)

    return call


def _call_shorter(body: Body, args: Any, address: int, size: int) -> int | None:
    """Calls with `args`, which has the caller's first `size` bytes; its other fields are 0, and nobody gets them."""
    ctypes.memmove(ctypes.addressof(args), address, size)
    error = body(args)
    ctypes.memmove(address, ctypes.addressof(args), size)
    return error


def _too_old(name: str, size: int, least: int) -> PjrtError:
    return invalid(
        f"{name}: the arguments have {size} bytes, and {least} in PJRT {MAJOR}.{MINOR}, which "
        f"xloom {xloom.__version__} speaks: the caller is older",
        "install a newer jaxlib (or whatever calls), or an older xloom",
    )
