"""Custom calls that are native functions already in the process: ctypes, cffi, PyCapsule, Numba, or an address."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.calls.registry import Registration, add
from xloom.errors import CustomCallError


def register_pointer(name: str, pointer: Any, *, platform: str = "Host", abi: str | None = None) -> Registration:
    """Registers a native function under `name`.

    `pointer` is a ctypes function (of a library, or a CFUNCTYPE callback), a cffi function pointer, a PyCapsule, a
    Numba `cfunc`, or an integer address. `abi`, if given, must then be that of every call. It is kept alive.
    """
    address = address_of(pointer)
    if not address:
        raise CustomCallError(f"the pointer for custom call {name!r} is null")
    return add(Registration(name, platform, address=address, abi=abi, source=repr(pointer), keep=(pointer,)))


def address_of(pointer: Any) -> int:
    """The address of a native function. Raises CustomCallError when `pointer` is none."""
    if isinstance(pointer, int) and not isinstance(pointer, bool):
        return pointer
    if isinstance(pointer, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return ctypes.cast(pointer, ctypes.c_void_p).value or 0
    address = getattr(pointer, "address", None)
    if isinstance(address, int):  # numba.cfunc
        return address
    kind = type(pointer).__name__
    if kind == "PyCapsule":
        return _capsule_address(pointer)
    if type(pointer).__module__ == "_cffi_backend":
        import cffi

        return int(cffi.FFI().cast("uintptr_t", pointer))
    raise CustomCallError(
        f"a {kind} is not a native function",
        hint="pass a ctypes or cffi function pointer, a PyCapsule, a numba cfunc or an address",
    )


def _capsule_address(capsule: Any) -> int:
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return get_pointer(capsule, get_name(capsule)) or 0
