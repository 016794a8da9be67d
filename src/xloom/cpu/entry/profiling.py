"""Programs that note when each of their kernels begins and ends, for a trace."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import KernelModule
from xloom.cpu.entry.function import EntryBuilder
from xloom.cpu.entry.kernel_details import kernel_details, kernel_name
from xloom.cpu.runtime.event_ring import CAPACITY, EventRing
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.serialized_executable import LinkedExecutable
from xloom.cpu.runtime.spmd_executable import SpmdExecutable
from xloom.hlo.module import Module
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64, POINTER
from xloom.trace import active, span
from xloom.trampoline import Nested

_MONOTONIC = 1
"""CLOCK_MONOTONIC of clock_gettime."""
_libc = ctypes.CDLL(None)


class ThunkTimes:
    """What native code writes down: (thunk, start, end, thread) of each, in nanoseconds."""

    columns = 4

    def __init__(self) -> None:
        self.thunks: list[Thunk] = []
        self.rounds: dict[Thunk, str] = {}
        """Of loops whose iterations share passes over arrays: the kernels of these have no times of their own."""
        self._told: dict[int, tuple[str, dict[str, Any]]] = {}
        self.ring = EventRing(self.columns)

    def take(self) -> list[list[int]]:
        """What ran since the last time: thunk, by its number; start, end, thread."""
        return self.ring.take()

    def told(self, number: int) -> tuple[str, dict[str, Any]]:
        """The name of a thunk, and what a trace says of it."""
        if number not in self._told:
            thunk = self.thunks[number]
            rounds = {"rounds": self.rounds[thunk]} if thunk in self.rounds else {}
            self._told[number] = kernel_name(thunk), {**kernel_details(thunk), **rounds}
        return self._told[number]


class TimedEntryBuilder(EntryBuilder):
    """Emits an entry function that reads the clock around each thunk."""

    def __init__(
        self,
        assignment: BufferAssignment,
        on_kernel: Callable[[KernelModule], None] | None,
        times: ThunkTimes,
    ):
        self._times = times
        self._libc: dict[str, ir.Function] = {}
        super().__init__(assignment, on_kernel)
        self.program.kept.append(times)

    def emit_thunk(self, schedule: ScheduledComputation, thunk: Thunk, number: int) -> Nested[None]:
        """Emits a thunk as EntryBuilder does, by itself, and reads the clock before and after."""
        start = self._now()
        nested = super().emit_thunk(schedule, thunk, number)
        if nested is not None:
            yield nested
        self.horizontal_fusion.finish()
        self._note(thunk, start, self._now())
        if nested is not None and (code := self.program.code.get(thunk)) is not None and code.choices:
            self._times.rounds[thunk] = ", ".join(map(str, code.choices))

    def _call(self, name: str, *arguments: ir.Value) -> ir.Value:
        """A function of the C library that gives an int."""
        if name not in self._libc:
            function = getattr(_libc, name)
            address = ctypes.cast(function, ctypes.c_void_p).value or 0
            self._libc[name] = self.imported(address, ir.FunctionType(I32, [a.type for a in arguments]), function)
        return self.b.call(self._libc[name], arguments)

    def _now(self) -> ir.Value:
        b = self.b
        time = allocate(b, I64, 2)
        self._call("clock_gettime", I32(_MONOTONIC), time)
        seconds = b.load(time, typ=I64)
        nanoseconds = b.load(b.gep(time, [I64(1)], source_etype=I64), typ=I64)
        return b.add(b.mul(seconds, I64(1_000_000_000)), nanoseconds)

    def _note(self, thunk: Thunk, start: ir.Value, end: ir.Value) -> None:
        b, times = self.b, self._times
        words = I64(times.ring.address).inttoptr(POINTER)
        number = b.atomic_rmw("add", words, I64(1), "monotonic")
        row = b.and_(number, I64(CAPACITY - 1))
        first = b.add(b.mul(row, I64(1 + times.columns)), I64(1))
        thread = b.zext(self._call("gettid"), I64) if hasattr(_libc, "gettid") else I64(0)
        for k, value in enumerate((I64(len(times.thunks)), start, end, thread), 1):
            b.store(value, b.gep(words, [b.add(first, I64(k))], source_etype=I64))
        b.atomic_rmw("xchg", b.gep(words, [first], source_etype=I64), b.add(number, I64(1)), "release")
        times.thunks.append(thunk)


class TimedExecutable(Executable):
    """Tells the trace that is being taken of its kernels."""

    def __init__(self, module: Module, image: LinkedExecutable, times: ThunkTimes):
        super().__init__(module, image)
        self._times = times

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Runs on NumPy arrays, as `Executable`, and hands the thunks' times to the trace."""
        with span(self.module.name, "execute"):
            try:
                return super().__call__(*arguments, **options)
            finally:
                self._tell()

    def call_at(self, arguments: Any, results: Any) -> None:
        """Runs on arrays at addresses, as `Executable.call_at`, and hands the thunks' times to the trace."""
        with span(self.module.name, "execute"):
            super().call_at(arguments, results)
            self._tell()

    def call_into(self, arguments: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """Runs on row-major arrays, as `Executable.call_into`, and hands the thunks' times to the trace."""
        with span(self.module.name, "execute"):
            super().call_into(arguments, results)
            self._tell()

    def _tell(self) -> None:
        trace = active()
        for thunk, start, end, thread in self._times.take():
            if trace is not None:
                name, details = self._times.told(thunk)
                trace.add(name, "kernel", start, end, thread or None, **details)


class TimedSpmdExecutable(TimedExecutable, SpmdExecutable):
    """One of several devices, which tell of their kernels by thread."""
