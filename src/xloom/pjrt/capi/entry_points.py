"""The entry points of PJRT_Api and its extensions that are Python functions: each is registered by its C name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import xloom
from xloom.pjrt.capi import errors, getters, native_entries, native_library
from xloom.pjrt.capi.ctypes_structs import least_size, struct, whole_size
from xloom.pjrt.capi.native_module import IN_PYTHON
from xloom.pjrt.capi.structs import MAJOR, MINOR
from xloom.pjrt.error import PjrtError, invalid

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
Body = Callable[[Any], int | None]

bodies: dict[str, Body] = {}
"""By an entry point's name: a function of its `PJRT_*_Args` structure, which it also writes the results to."""


def entry_point(name: str) -> Callable[[Body], Body]:
    """Registers the decorated function for the entry point `name`, as `PJRT_Buffer_Delete`.

    It gets the ctypes structure `<name>_Args` and returns None, or the address of a PJRT_Error; what it raises becomes
    one.
    """

    def register(body: Body) -> Body:
        bodies[name] = body
        return body

    return register


def declare(names: Iterable[str]) -> None:
    """Makes C functions for entries: what is registered, or one that says that nothing is.

    Those that only read are native code already; others are for what native code leaves to Python."""
    for name in names:
        if name in native_entries.NAMES:
            native_library.register(f"{name}{IN_PYTHON}", FUNCTION(_entry(name)))
        elif name not in getters.NAMES:
            native_library.register(name, FUNCTION(_entry(name)))


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
                native_library.interrupt_caller()
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
