"""Programs that note when each of their kernels begins and ends, for a trace."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.fusion.producer_consumer import FusionGroup
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import KernelModule
from xloom.cpu.entry.function import EntryBuilder
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.serialized_executable import LinkedExecutable
from xloom.hlo.cost import flops
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64, POINTER
from xloom.trace import active, span
from xloom.trampoline import Nested

_CAPACITY = 1 << 16
"""Thunks that a run notes; those after it are only counted."""
_MONOTONIC = 1
"""CLOCK_MONOTONIC of clock_gettime."""
_clock_gettime = ctypes.CDLL(None).clock_gettime


class ThunkTimes:
    """Memory that native code writes to: how many thunks ran, then (thunk, start, end) of each, in nanoseconds."""

    def __init__(self) -> None:
        self.thunks: list[Thunk] = []
        self._words = np.zeros(1 + 3 * _CAPACITY, np.int64)
        self.address = self._words.ctypes.data

    def take(self) -> list[tuple[Thunk, int, int]]:
        """What ran since the last time."""
        count = min(int(self._words[0]), _CAPACITY)
        rows = self._words[1 : 1 + 3 * count].reshape(count, 3).tolist()
        self._words[0] = 0
        return [(self.thunks[thunk], start, end) for thunk, start, end in rows]


class TimedEntryBuilder(EntryBuilder):
    """Emits an entry function that reads the clock around each thunk."""

    def __init__(
        self,
        assignment: BufferAssignment,
        on_kernel: Callable[[KernelModule], None] | None,
        times: ThunkTimes,
    ):
        self._times = times
        self._clock: ir.Function | None = None
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

    def _now(self) -> ir.Value:
        b = self.b
        if self._clock is None:
            address = ctypes.cast(_clock_gettime, ctypes.c_void_p).value or 0
            self._clock = self.imported(address, ir.FunctionType(I32, [I32, POINTER]), _clock_gettime)
        time = allocate(b, I64, 2)
        b.call(self._clock, [I32(_MONOTONIC), time])
        seconds = b.load(time, typ=I64)
        nanoseconds = b.load(b.gep(time, [I64(1)], source_etype=I64), typ=I64)
        return b.add(b.mul(seconds, I64(1_000_000_000)), nanoseconds)

    def _note(self, thunk: Thunk, start: ir.Value, end: ir.Value) -> None:
        b, times = self.b, self._times
        words = I64(times.address).inttoptr(POINTER)
        row = b.atomic_rmw("add", words, I64(1), "monotonic")
        with b.if_then(b.icmp_unsigned("<", row, I64(_CAPACITY))):
            first = b.add(b.mul(row, I64(3)), I64(1))
            for k, value in enumerate((I64(len(times.thunks)), start, end)):
                b.store(value, b.gep(words, [b.add(first, I64(k))], source_etype=I64))
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

    def _tell(self) -> None:
        trace = active()
        for thunk, start, end in self._times.take():
            if trace is not None:
                trace.add(_name(thunk), "kernel", start, end, **_details(thunk))


def _name(thunk: Thunk) -> str:
    return ", ".join(root.name for root in _roots(thunk))


def _details(thunk: Thunk) -> dict[str, Any]:
    """What it is, and how much it reads, writes and computes."""
    roots = _roots(thunk)
    inside = [*thunk.roots, *thunk.inlined] if isinstance(thunk, FusionGroup) else [thunk]
    found: dict[str, Any] = {"opcode": "fusion" if len(inside) > 1 else roots[0].opcode}
    arrays = {operand for i in inside for operand in i.operands}.difference(inside).union(roots)
    found["bytes"] = sum(leaf.nbytes for array in arrays for leaf in leaf_shapes(array.shape))
    found["flops"] = sum(map(flops, roots[0]["calls"] if roots[0].opcode == "fusion" else inside))
    sources = [root.metadata.op_name for root in roots if root.metadata.op_name]
    return {**found, "op_name": sources[0]} if sources else found


def _roots(thunk: Thunk) -> tuple[Instruction, ...]:
    return tuple(thunk.roots) if isinstance(thunk, FusionGroup) else (thunk,)
