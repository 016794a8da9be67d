"""Where the code of a call may come from: each source registers one kind of kernel, by one ABI, as `t`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xloom as xl
from tests.judges.custom_calls.kernels import BODIES, DEVICE, HOST, MESSAGE, TYPED, symbol
from xloom.calls import register_c, register_pointer, register_symbol
from xloom.calls.c_compiler import compile_source

NOT_THERE = "—"
"""What an ABI has no way to say, or a source no way to be."""


def source_text(abi: str) -> str:
    """The source of all kernels by `abi`."""
    part = TYPED if abi.endswith("typed-ffi") else DEVICE if abi.startswith("device") else HOST
    return BODIES + part


def include_dirs() -> list[Path]:
    """Where the headers of the typed interface are."""
    import jaxlib

    return [Path(jaxlib.__file__).parent / "include"]


@cache
def _library(abi: str) -> Path:
    return compile_source(source_text(abi), include_dirs=include_dirs())


def _function(kind: str, abi: str) -> Any:
    return ctypes.CDLL(str(_library(abi)))[symbol(kind, abi)]


def _address(kind: str, abi: str) -> int:
    return ctypes.cast(_function(kind, abi), ctypes.c_void_p).value or 0


def _stated(abi: str) -> str | None:
    """The ABI that has to be stated: code of unknown ABI gets no opaque bytes."""
    return abi if abi == "status-returning-unified" else None


def _by_ctypes(kind: str, abi: str, platform: str) -> None:
    register_pointer("t", _function(kind, abi), platform=platform, abi=_stated(abi))


def _by_cffi(kind: str, abi: str, platform: str) -> None:
    import cffi

    register_pointer("t", cffi.FFI().cast("void (*)(void)", _address(kind, abi)), platform=platform, abi=_stated(abi))


def _by_capsule(kind: str, abi: str, platform: str) -> None:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(_address(kind, abi), None, None)
    register_pointer("t", capsule, platform=platform, abi=_stated(abi))


def _by_symbol(kind: str, abi: str, platform: str) -> None:
    register_symbol("t", _library(abi), symbol(kind, abi), platform=platform, abi=_stated(abi))


def _by_c(kind: str, abi: str, platform: str, language: str = "c") -> None:
    name, text = symbol(kind, abi), source_text(abi)
    register_c("t", text, name, platform=platform, language=language, include_dirs=include_dirs())


def _by_cpp(kind: str, abi: str, platform: str) -> None:
    _by_c(kind, abi, platform, "c++")


def _by_python(kind: str, abi: str, platform: str) -> None:
    def total(opaque: bytes) -> int:
        return sum(opaque)

    def array(out: Any, x: Any) -> None:
        out[...] = 2 * x

    def nested(out: Any, pair: Any) -> None:
        x, (y,) = pair
        out[0][...] = x + y
        out[1][0][...] = x - y

    def scratch(out: Any, x: Any) -> None:
        out[1][...] = x
        out[0][...] = 2 * out[1]

    def alias(out: Any, x: Any) -> None:
        assert np.shares_memory(out, x)
        out += 1

    def failure(out: Any, x: Any) -> None:
        raise ValueError(MESSAGE)

    def opaque_bytes(out: Any, x: Any, *, opaque: bytes) -> None:
        out[...] = x + total(opaque)

    def attributes_of(out: Any, x: Any, *, attributes: Any) -> None:
        out[...] = x + total(attributes["text"].encode())

    bodies: dict[str, Callable[..., None]] = {
        "array": array,
        "nested tuple": nested,
        "scratch": scratch,
        "alias": alias,
        "failure": failure,
        "opaque": attributes_of if abi.endswith("typed-ffi") else opaque_bytes,
    }
    xl.custom_call("t", platform=platform)(bodies[kind])


def _by_numba(kind: str, abi: str, platform: str) -> None:
    from tests.judges.custom_calls.numba_kernels import kernel

    register_pointer("t", kernel(kind, abi, ctypes.CDLL(str(_library("typed-ffi")))), platform=platform)


SOURCES: dict[str, Callable[[str, str, str], None]] = {
    "Python/NumPy": _by_python,
    "Numba cfunc": _by_numba,
    "ctypes": _by_ctypes,
    "cffi": _by_cffi,
    "PyCapsule": _by_capsule,
    ".so, symbol": _by_symbol,
    "C source": _by_c,
    "C++ source": _by_cpp,
}
