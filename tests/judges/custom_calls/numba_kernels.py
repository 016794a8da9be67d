"""The kernels of the table as Numba's cfuncs."""

from __future__ import annotations

import ctypes
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

F = types.float32
PLACES = types.CPointer(types.voidptr)
# the leaves (output, second output, operand, second operand) as paths from `out` and `in`, on the host and flat
_NESTED = {
    "array": ("o", "", "i0", ""),
    "nested tuple": ("o0", "o10", "i00", "i010"),
    "scratch": ("o0", "o1", "i0", ""),
}
_FLAT = {"array": (1, 0, 0, 0), "nested tuple": (2, 3, 0, 1), "scratch": (1, 2, 0, 0)}
_STATEMENTS = {
    "array": "o[i] = 2 * x[i]",
    "nested tuple": "o[i] = x[i] + y[i]; p[i] = x[i] - y[i]",
    "scratch": "p[i] = x[i]; o[i] = 2 * p[i]",
    "alias": "o[i] += numba.float32(1)",
    "failure": "pass",
    "opaque": "o[i] = x[i] + total",
}
_SIGNATURES = {
    "original": ("void(voidptr, voidptr)", "out, ins"),
    "status-returning": ("void(voidptr, voidptr, voidptr)", "out, ins, status"),
    "status-returning-unified": ("void(voidptr, voidptr, voidptr, uint64, voidptr)", "out, ins, opaque, size, status"),
    "device": ("void(voidptr, voidptr, voidptr, uint64)", "stream, buffers, opaque, size"),
    "device, status": ("void(voidptr, voidptr, voidptr, uint64, voidptr)", "stream, buffers, opaque, size, status"),
    "typed-ffi": ("voidptr(voidptr)", "frame"),
}


def kernel(kind: str, abi: str, library: ctypes.CDLL) -> Any:
    """The cfunc; `library` has the helpers that read call frames and report failures."""
    abi = "typed-ffi" if abi.endswith("typed-ffi") else abi
    signature, parameters = _SIGNATURES[abi]
    like = kind if kind in _FLAT else "array"
    lines = [f"def kernel({parameters}):"]
    if abi == "typed-ffi":
        lines.append("if metadata(frame): return null(frame)")
        pointers = ["result(frame, 0)", "result(frame, 1)", "argument(frame, 0)", "argument(frame, 1)"]
    elif abi.startswith("device"):
        pointers = [f"carray(buffers, 4, types.uint64)[{k}]" for k in _FLAT[like]]
    else:
        pointers = [_path(path) for path in _NESTED[like]]
    used = "ox" if like == "array" else "opx" if like == "scratch" else "opxy"
    for name, pointer in zip("opxy", pointers, strict=True):
        if name in used:
            lines.append(f"{name} = carray(address({pointer}), 4, types.float32)")
    if kind == "opaque":
        bytes_ = "total = numba.float32(0)\n    for k in range(size): total += carray(opaque, size, types.uint8)[k]"
        lines.append("total = numba.float32(sum_of_text(frame))" if abi == "typed-ffi" else bytes_)
    if kind == "failure":
        lines.append("return fail(frame)" if abi == "typed-ffi" else "report(status)")
    lines.append(f"for i in range(4): {_STATEMENTS[kind]}")
    if abi == "typed-ffi":
        lines.append("return null(frame)")
    scope: dict[str, Any] = {"numba": numba, "types": types, "carray": carray, "address": _address, **_helpers(library)}
    exec("\n    ".join(lines), scope)
    return numba.cfunc(signature)(scope["kernel"])


def _path(path: str) -> str:
    if not path:
        return "out"
    found = "out" if path[0] == "o" else "ins"
    for index in path[1:]:
        found = f"carray(address({found}), 4, types.uint64)[{index}]"
    return found


@intrinsic  # pyright: ignore[reportArgumentType]
def _address(context: Any, value: Any) -> Any:
    """A number or a pointer as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (given,) = arguments
        kind = context.get_value_type(types.voidptr)
        return builder.inttoptr(given, kind) if isinstance(value, types.Integer) else given

    return types.voidptr(value), generate


@numba.njit
def _null(frame: Any) -> Any:
    return _address(types.uint64(0))  # pyright: ignore[reportCallIssue]


def _helpers(library: ctypes.CDLL) -> dict[str, Any]:
    found: dict[str, Any] = {"null": _null}
    pointer, number = ctypes.c_void_p, ctypes.c_int
    kinds = {
        "metadata": (number, [pointer]),
        "argument": (pointer, [pointer, number]),
        "result": (pointer, [pointer, number]),
        "fail": (pointer, [pointer]),
        "sum_of_text": (ctypes.c_int64, [pointer]),
        "report": (None, [pointer]),
    }
    for name, (returned, arguments) in kinds.items():
        function = library[name]
        function.restype, function.argtypes = returned, arguments
        found[name] = function
    return found
