"""Kernels that commit each fault that the sanitizer is there for: how many it catches of those that are planted."""

from __future__ import annotations

import ctypes
import io
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any

import numpy as np

import xloom as xl
from tests.judges.custom_calls.table import Engine, compiled, simulated
from xloom.calls import register_c
from xloom.calls.sanitizer import sanitize
from xloom.errors import CustomCallError
from xloom.hlo.text.parser import parse

_X = np.arange(4, dtype=np.float32)
_PROGRAM = 'ENTRY e { x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x), custom_call_target="t" }'
_SOURCE = """
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#ifdef DEVICE
#define FAULT(name, body)                                                    \\
  void name(void* stream, void** buffers, const char* opaque, size_t size) { \\
    float *x = buffers[0], *y = buffers[1];                                  \\
    body;                                                                    \\
  }
#else
#define FAULT(name, body) void name(float* y, float** in) { float* x = in[0]; body; }
#endif
#define COPY memcpy(y, x, 16)
static volatile int zero;
static int deep(int n) { volatile char room[4096]; room[0] = n; return deep(n + 1) + room[0]; }
"""
_NATIVE = {
    "one element past the result": ("COPY; y[4] = 1", "past the end of the result"),
    "one element before the result": ("COPY; y[-1] = 1", "before the result"),
    "far past the result": ("COPY; y[100000] = 1", "past the end of the result"),
    "far before the result": ("COPY; y[-100000] = 1", "before the result"),
    "reads far past an operand": ("COPY; y[0] += ((volatile float*)x)[100000]", "past the end of operand 0"),
    "writes to an operand": ("COPY; x[1] = 1", "wrote to element [1] of operand 0"),
    "writes past an operand": ("COPY; x[4] = 1", "past the end of operand 0"),
    "leaves an element unwritten": ("memcpy(y, x, 12)", "did not write element [3]"),
    "leaves all unwritten": ("(void)x", "did not write element [0] and 3 more"),
    "adds to what nobody wrote": ("for (int i = 1; i < 4; ++i) y[i] = x[i]; y[0] += 1", "made nan"),
    "makes NaN": ('COPY; y[2] = nanf("")', "made nan"),
    "makes infinity": ("COPY; y[0] = INFINITY", "made inf"),
    "null pointer": ("*(volatile int*)0 = 1", "accessed address 0x0"),
    "wild pointer": ("*(volatile int*)0x123456789 = 1", "accessed address 0x123456789"),
    "division by zero": ("COPY; y[0] = 7 / zero", "raised SIGFPE"),
    "illegal instruction": ("__builtin_trap()", "raised SIGILL"),
    "abort": ("abort()", "raised SIGABRT"),
    "runs forever": ("for (volatile int k = 0;; ++k)", "has not returned"),
}
_ISOLATED = {
    "ends the process": ("exit(3)", "exit status 3"),
    "overflows the stack": ("y[0] = deep(0)", "SIGSEGV"),
    "frees twice": ("void* volatile p = malloc(8); free(p); free(p)", "SIGABRT"),
}


def _python_loop(out: Any, x: Any) -> None:
    while True:
        time.sleep(0.001)


def _python_overrun(out: Any, x: Any) -> None:
    ctypes.c_float.from_address(out.ctypes.data + 16).value = 1


def _python_crash(out: Any, x: Any) -> None:
    ctypes.string_at(8)


def planted() -> Iterator[tuple[str, Engine, bool, bool]]:
    """Each fault, what ran it, whether in a process of its own, and whether it was caught and named."""
    for isolate in (False, True):
        for engine in (compiled, xl.evaluate, simulated):
            for name, (body, message) in {**_NATIVE, **(_ISOLATED if isolate else {})}.items():
                _register(body)
                yield name, engine, isolate, _is_caught(engine, isolate, message)
            functions: list[tuple[Callable[..., None], str]] = [
                (_python_loop, "has not returned"),
                (_python_overrun, "past the end of the result"),
                *([(_python_crash, "died of SIGSEGV")] if isolate else []),
            ]
            for function, message in functions:
                _register_python(function)
                yield (
                    function.__name__.strip("_").replace("_", ", "),
                    engine,
                    isolate,
                    _is_caught(engine, isolate, message),
                )
            inner = parse("HloModule inner ENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }")
            device = engine if engine is not simulated else _reentrant(engine)
            _register_python(lambda out, x, device=device, inner=inner: device(inner, x))
            yield "needs its own device", engine, isolate, _is_caught(device, isolate, "which waits for that call")


def _reentrant(engine: Engine) -> Engine:
    """One device for the call and for what it runs."""
    from xloom.sim import Simulator

    device = Simulator(memory_bytes=1 << 16)
    return lambda module, *arguments: device.run(module, *arguments)


def _register(body: str) -> None:
    source = f"{_SOURCE}FAULT(fault, {body})"
    register_c("t", source, "fault")
    register_c("t", f"#define DEVICE\n{source}", "fault", platform="sim")


def _register_python(function: Callable[..., Any]) -> None:
    for platform in ("Host", "sim"):
        xl.custom_call("t", platform=platform)(function)


def _is_caught(engine: Engine, isolate: bool, message: str) -> bool:
    """True when the fault is an error or a warning that says what it was, and the process is well."""
    with warnings.catch_warnings(record=True) as warned, sanitize(isolate=isolate, seconds=0.3):
        warnings.simplefilter("always")
        try:
            with redirect_stderr(io.StringIO()):
                engine(parse(_PROGRAM), _X)
        except CustomCallError as error:
            said = str(error)
            # a child's death is told as such
            return message.removeprefix("raised ") in said
    return any(message in str(warning.message) for warning in warned)
