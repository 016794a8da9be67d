"""The parameters that a pointer's type says: the prototypes of ctypes, cffi and Numba."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xloom.calls.stated_abi import Kind, Parameter

_WIDTH = ctypes.sizeof(ctypes.c_void_p)


def parameters_of(pointer: Any) -> Sequence[Parameter]:
    """None where nothing is said, as of addresses, and of what is cast to a function without parameters."""
    prototype = getattr(pointer, "ctypes", pointer)  # of a numba.cfunc
    if isinstance(prototype, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return [Parameter(t.__name__, _kind(t)) for t in prototype.argtypes or ()]
    if type(pointer).__module__ == "_cffi_backend":
        import cffi

        kind = cffi.FFI().typeof(pointer)
        return [Parameter(t.cname, _kind_of_cffi(t)) for t in kind.args] if kind.kind == "function" else ()
    return ()


def _kind(ctype: Any) -> Kind:
    inner: Any = getattr(ctype, "_type_", None)  # a letter, or what a pointer is to
    if isinstance(inner, str):
        if inner in "PqQlL" and ctypes.sizeof(ctype) == _WIDTH:
            return "any"  # integers are addresses too
        return "pointer" if inner == "z" else "size" if inner in "bBhHiIlLqQ" else "other"
    if issubclass(ctype, ctypes._Pointer):
        if issubclass(inner, ctypes._Pointer) or inner in (ctypes.c_void_p, ctypes.c_char_p):
            return "table"
        return "pointer" if issubclass(inner, ctypes._SimpleCData) else "any"
    return "other"


def _kind_of_cffi(ctype: Any) -> Kind:
    if ctype.kind in ("pointer", "array"):
        inner = ctype.item.kind
        return "table" if inner in ("pointer", "array") else "pointer" if inner == "primitive" else "any"
    if ctype.kind != "primitive" or ctype.cname in ("float", "double", "long double"):
        return "other"
    import cffi

    return "any" if cffi.FFI().sizeof(ctype) == _WIDTH else "size"
