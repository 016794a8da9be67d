"""What a call costs by each ABI, beside jaxlib's own calls and `pure_callback`, alternated in one process."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import xloom as xl
from tests.judges.custom_calls.sources import include_dirs
from xloom.calls import register_c, register_pointer

STEPS = 1000
"""Calls in a loop of the program."""

_SOURCE = """
#include <xloom/custom_call.h>
static void negate(float* o, const float* x) { for (int i = 0; i < 4; ++i) o[i] = -x[i]; }
void judge_original(void* o, const void** i) { negate(o, i[0]); }
void judge_status(void* o, const void** i, XlaCustomCallStatus* s) { negate(o, i[0]); }
void judge_unified(void* o, const void** i, const char* q, size_t n, XlaCustomCallStatus* s) { negate(o, i[0]); }
"""
_TYPED = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Negate(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  for (int i = 0; i < 4; ++i) y->typed_data()[i] = -x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(judge_typed, Negate,
    ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>().Ret<ffi::BufferR1<ffi::F32>>());
"""
_SHAPE = jax.ShapeDtypeStruct((4,), np.float32)
Call = Callable[[Any], Any]


def _ffi_call(name: str, version: int) -> Call:
    return lambda x: jax.ffi.ffi_call(name, _SHAPE, custom_call_api_version=version)(x)


def _calls() -> dict[str, Call]:
    """The calls of each ABI, as JAX writes them."""
    register_c("judge_original", _SOURCE, abi="original")
    register_c("judge_status", _SOURCE, abi="status-returning")
    register_c("judge_unified", _SOURCE, abi="status-returning-unified")
    made = register_c("judge_typed", _TYPED, abi="typed-ffi", language="c++", include_dirs=include_dirs())
    handler = ctypes.CDLL(made.source.rpartition(":")[0]).judge_typed
    jax.ffi.register_ffi_target("judge_typed", jax.ffi.pycapsule(handler), platform="cpu")

    @xl.custom_call("judge_python")
    def python(out: Any, x: Any) -> None:
        np.negative(x, out)

    register_pointer("judge_numba", _numba_kernel(), abi="original")
    return {
        "original": _ffi_call("judge_original", 1),
        "status-returning": _ffi_call("judge_status", 2),
        "status-returning-unified": _ffi_call("judge_unified", 3),
        "typed-ffi": _ffi_call("judge_typed", 4),
        "original, Numba": _ffi_call("judge_numba", 1),
        "Python/NumPy": _ffi_call("judge_python", 4),
    }


def _numba_kernel() -> Any:
    import numba

    row = numba.types.CPointer(numba.types.float32)

    @numba.cfunc(numba.types.void(row, numba.types.CPointer(row)))
    def negate(out: Any, operands: Any) -> None:
        for k in range(4):
            out[k] = -operands[0][k]

    return negate


def _pure_callback(x: Any) -> Any:
    return jax.pure_callback(lambda v: np.negative(v), _SHAPE, x)


def _ours(function: Call) -> Callable[[], Any]:
    lowered = jax.jit(function).trace(_SHAPE).lower(lowering_platforms=("cpu",))
    executable = xl.compile(xl.from_stablehlo(lowered.as_text()))
    x = np.arange(4, dtype=np.float32)
    return lambda: np.asarray(executable(x))


def _theirs(function: Call) -> Callable[[], Any]:
    compiled = jax.jit(function).lower(_SHAPE).compile()
    x = jax.device_put(np.arange(4, dtype=np.float32))
    return lambda: compiled(x).block_until_ready()


def _looped(function: Call) -> Call:
    return lambda x: jax.lax.fori_loop(0, STEPS, lambda _, v: function(v), x)


def measured(seconds: float) -> dict[str, tuple[float, float]]:
    """Microseconds of a program with one call, and of each call in a loop: medians of alternated runs."""
    calls = _calls()
    found: dict[str, list[float]] = {}
    for wrap, steps in ((lambda f: f, 1), (_looped, STEPS)):
        runs = {name: _ours(wrap(call)) for name, call in calls.items()}
        runs["no call"] = _ours(wrap(lambda x: -x))
        runs["jaxlib, no call"] = _theirs(wrap(lambda x: -x))
        runs["jaxlib, typed-ffi"] = _theirs(wrap(calls["typed-ffi"]))
        runs["jaxlib, pure_callback"] = _theirs(wrap(_pure_callback))
        for run in runs.values():
            run()
        for name, microseconds in _medians(runs, seconds).items():
            found.setdefault(name, []).append(microseconds / steps)
    return {name: (once, each) for name, (once, each) in found.items()}


def _medians(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


def targets(found: dict[str, tuple[float, float]]) -> dict[str, tuple[bool, bool]]:
    """Which calls are in time: native ones no slower than jaxlib's, Python in half of `pure_callback`'s."""
    native, callback = found["jaxlib, typed-ffi"], found["jaxlib, pure_callback"]
    limits = {
        name: (callback[0] / 2, callback[1] / 2) if name == "Python/NumPy" else native
        for name in found
        if not name.startswith(("jaxlib", "no call"))
    }
    return {name: (found[name][0] <= one, found[name][1] <= each) for name, (one, each) in limits.items()}
