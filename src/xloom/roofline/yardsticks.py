"""What a machine can do, as functions to time beside programs: a triad and a sum in memory, multiply-adds in registers.

They are LLVM IR of their own, and owe nothing to what they measure.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from xloom.thread_count import processor_count

_TRIAD_ELEMENTS = 1 << 23  # three arrays of 32 MiB: more than a cache holds
_TRIAD_PASSES = 4  # one after the other in each thread, as starting threads takes time too
_MULTIPLY_ADDS = 1 << 18  # of each sum


@dataclass(frozen=True)
class Yardstick:
    """A function, and how much of what it measures one run of it does."""

    run: Callable[[], object]
    amount: float


def memory() -> Yardstick:
    """Bytes of `a = b + 3 c`, on all threads. Counted as STREAM does: two reads and a write, whatever a write costs."""
    pool, threads = _pool()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(_address("triad"))
    a, b, c = arrays = [np.ones(_TRIAD_ELEMENTS, np.float32) for _ in range(3)]
    share = _TRIAD_ELEMENTS // threads // 64 * 64
    starts = [[x.ctypes.data + 4 * share * t for x in arrays] for t in range(threads)]

    def run() -> None:
        assert a.size == b.size == c.size  # keeps them alive
        list(pool.map(lambda start: function(*start, share, _TRIAD_PASSES), starts))

    return Yardstick(run, 12.0 * share * threads * _TRIAD_PASSES)


def reading() -> Yardstick:
    """Bytes of an array that is summed up, on all threads."""
    pool, threads = _pool()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(_address("total"))
    array, results = np.ones(2 * _TRIAD_ELEMENTS, np.float32), np.zeros((threads, 16), np.float32)
    share = array.size // threads // 64 * 64
    starts = [(array.ctypes.data + 4 * share * t, results[t].ctypes.data) for t in range(threads)]

    def run() -> None:
        assert array.size == len(array)  # keeps it alive
        list(pool.map(lambda start: function(*start, share, _TRIAD_PASSES), starts))

    return Yardstick(run, 4.0 * share * threads * _TRIAD_PASSES)


def arithmetic() -> Yardstick:
    """f32 operations of multiply-adds that wait for nothing, on all threads; two each."""
    pool, threads = _pool()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(_address("multiply_add"))
    lanes, sums = _vectors()
    results = [np.zeros(lanes, np.float32) for _ in range(threads)]

    def run() -> None:
        list(pool.map(lambda result: function(result.ctypes.data, _MULTIPLY_ADDS), results))

    return Yardstick(run, 2.0 * lanes * sums * _MULTIPLY_ADDS * threads)


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    """A thread for each processor, which stays on it: woken for a millisecond, two would often share one."""
    places = iter(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_setaffinity") else None

    def settle() -> None:
        if places is not None:
            os.sched_setaffinity(0, {next(places)})

    threads = processor_count()
    return ThreadPoolExecutor(threads, initializer=settle), threads


def _vectors() -> tuple[int, int]:
    """The lanes of f32 in a register, and how many registers are enough to hide the time of a multiply-add."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 24
    return (8, 12) if features.get("avx2") else (4, 12)


@cache
def _engine() -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_text())
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _address(name: str) -> int:
    return _engine().get_function_address(name)


def _text() -> str:
    lanes, sums = _vectors()
    vector, fma = f"<{lanes} x float>", f"llvm.fma.v{lanes}f32"

    def splat(value: float) -> str:
        return f"<{', '.join([f'float {value}'] * lanes)}>"

    phis = "\n".join(f"  %s{k} = phi {vector} [zeroinitializer, %entry], [%t{k}, %loop]" for k in range(sums))
    steps = "\n".join(
        f"  %t{k} = call {vector} @{fma}({vector} %s{k}, {vector} {splat(0.5)}, {vector} {splat(1.0)})"
        for k in range(sums)
    )

    def total(count: int) -> str:
        return "\n".join(
            f"  %u{k} = fadd {vector} {f'%u{k - 1}' if k else 'zeroinitializer'}, %t{k}" for k in range(count)
        )

    lines = "\n".join(
        f"""  %i{k} = add i64 %i, {k * lanes}
  %pb{k} = getelementptr float, ptr %b, i64 %i{k}
  %pc{k} = getelementptr float, ptr %c, i64 %i{k}
  %pa{k} = getelementptr float, ptr %a, i64 %i{k}
  %b{k} = load {vector}, ptr %pb{k}, align 4
  %c{k} = load {vector}, ptr %pc{k}, align 4
  %a{k} = call {vector} @{fma}({vector} {splat(3.0)}, {vector} %c{k}, {vector} %b{k})
  store {vector} %a{k}, ptr %pa{k}, align 4"""
        for k in range(4)
    )
    sums_read = "\n".join(f"  %s{k} = phi {vector} [zeroinitializer, %pass], [%t{k}, %loop]" for k in range(4))
    reads = "\n".join(
        f"""  %i{k} = add i64 %i, {k * lanes}
  %p{k} = getelementptr float, ptr %a, i64 %i{k}
  %v{k} = load {vector}, ptr %p{k}, align 4
  %t{k} = fadd {vector} %s{k}, %v{k}"""
        for k in range(4)
    )
    stored = f"{total(4)}\n  store volatile {vector} %u3, ptr %out, align 4"
    return f"""
declare {vector} @{fma}({vector}, {vector}, {vector})

define void @multiply_add(ptr %out, i64 %count) {{
entry:
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%m, %loop]
{phis}
{steps}
  %m = add i64 %n, 1
  %more = icmp slt i64 %m, %count
  br i1 %more, label %loop, label %end
end:
{total(sums)}
  store {vector} %u{sums - 1}, ptr %out, align 4
  ret void
}}

{_passes("total", ("a", "out"), 4 * lanes, sums_read, reads, stored)}
{_passes("triad", ("a", "b", "c"), 4 * lanes, "", lines, "")}
"""


def _passes(name: str, arrays: tuple[str, ...], step: int, before: str, body: str, after: str) -> str:
    """A function that goes over arrays several times: `body` for each `step` elements, `after` at their end."""
    parameters = ", ".join(f"ptr noalias %{array}" for array in arrays)
    return f"""define void @{name}({parameters}, i64 %size, i64 %passes) {{
entry:
  br label %pass
pass:
  %p = phi i64 [0, %entry], [%q, %next]
  br label %loop
loop:
  %i = phi i64 [0, %pass], [%j, %loop]
{before}
{body}
  %j = add i64 %i, {step}
  %more = icmp slt i64 %j, %size
  br i1 %more, label %loop, label %next
next:
{after}
  %q = add i64 %p, 1
  %again = icmp slt i64 %q, %passes
  br i1 %again, label %pass, label %end
end:
  ret void
}}
"""
