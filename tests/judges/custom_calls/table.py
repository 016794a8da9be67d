"""ABI x source x kind of call: what runs, natively compiled, interpreted, and on the simulated accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import xloom as xl
from tests.judges.custom_calls.kernels import KINDS, symbol
from tests.judges.custom_calls.programs import X, program, verdict
from tests.judges.custom_calls.sources import NOT_THERE, SOURCES, source_text
from xloom.calls import register_c, registry
from xloom.errors import CustomCallError, XloomError
from xloom.hlo.module import Module
from xloom.sim import Simulator

VERSIONS = {
    "original": "API_VERSION_ORIGINAL",
    "status-returning": "API_VERSION_STATUS_RETURNING",
    "status-returning-unified": "API_VERSION_STATUS_RETURNING_UNIFIED",
    "typed-ffi": "API_VERSION_TYPED_FFI",
    "device": "API_VERSION_ORIGINAL",
    "device, status": "API_VERSION_STATUS_RETURNING_UNIFIED",
    "device, typed-ffi": "API_VERSION_TYPED_FFI",
}
CANNOT_FAIL = ("original", "device")
WITHOUT_OPAQUE = ("original", "status-returning")


Engine = Callable[..., Any]
"""Runs a module with arguments."""


def compiled(module: Module, *arguments: Any) -> Any:
    """On the CPU."""
    return xl.compile(module)(*arguments)


def simulated(module: Module, *arguments: Any) -> Any:
    """On the simulated accelerator."""
    return Simulator(memory_bytes=1 << 16).run(module, *arguments)


def cell(abi: str, source: str, kind: str) -> str:
    """`runs`, what is wrong, or that there is no such thing."""
    if source != "Python/NumPy" and (
        (kind == "failure" and abi in CANNOT_FAIL) or (kind == "opaque" and abi in WITHOUT_OPAQUE)
    ):
        return NOT_THERE
    on_device = abi.startswith("device")
    SOURCES[source](kind, abi, "sim" if on_device else "Host")
    module = program(kind, VERSIONS[abi], abi.endswith("typed-ffi"))
    for run in [simulated] if on_device else [compiled, xl.evaluate]:
        try:
            wrong = verdict(kind, run, module)
        except XloomError as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            return wrong
    return "runs"


class Gpu(Simulator):
    """Calls what is registered for CUDA."""

    platform = "CUDA"


def cuda_cell(kind: str, abi: str = "device, status") -> str:
    """CUDA source: what becomes of it where there is nvcc, and where there is a driver."""
    text, name = source_text(abi), symbol(kind, abi)
    register_c("t", text, name, platform="CUDA", language="c++")
    module = program(kind, VERSIONS[abi], False)
    wrong = verdict(kind, lambda m, *a: Gpu(memory_bytes=1 << 16).run(m, *a), module)
    if wrong:
        return wrong
    try:
        register_c("t", text, name, language="cuda")
    except CustomCallError as error:
        return f"{type(error).__name__}: {error}"
    try:
        Gpu(memory_bytes=1 << 16).run(module, (X, (X,)) if kind == "nested tuple" else X)
    except CustomCallError as error:
        return "compiles, no driver" if "driver" in str(error) or kind == "failure" else str(error)
    return "compiles, called"


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """ABI, source, and a cell for each kind."""
    before = dict(registry._registered)
    try:
        for abi in VERSIONS:
            for source in SOURCES:
                yield abi, source, [cell(abi, source, kind) for kind in KINDS]
        yield "device, status", "CUDA source", [cuda_cell(kind) for kind in KINDS]
    finally:
        registry._registered.clear()
        registry._registered.update(before)
