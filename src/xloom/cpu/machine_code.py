"""HLO to machine code.

A program that was compiled before is found without this module, which brings in the whole compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from xloom import trace
from xloom.cpu.constant_arrays import constant_arrays
from xloom.cpu.entry.collective_sites import with_origins
from xloom.cpu.entry.emitted_program import EmittedProgram, KernelModule
from xloom.cpu.entry.function import EntryBuilder
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.cpu.runtime.memory_pool import aligned
from xloom.cpu.runtime.serialized_executable import SerializedExecutable
from xloom.hlo.garbage_collection import without_collector
from xloom.hlo.module import Module
from xloom.hlo.verify.module import verify
from xloom.llvm.object_files import ObjectFiles
from xloom.llvm.target import Target
from xloom.thread_count import thread_count


def serialized(
    module: Module, target: Target, builder: Callable[..., EntryBuilder] = EntryBuilder
) -> tuple[SerializedExecutable, EmittedProgram]:
    """A program compiled now, but for what is only in this process."""
    verify(module)  # native code of an invalid module could touch memory that is not its own
    with without_collector(), ObjectFiles(thread_count(), target) as codes:
        with trace.span("passes", "compile"):
            ready = prepared(module, target=target)
        with trace.span("LLVM IR", "compile"):  # of which machine code is made meanwhile
            _, assignment, program = lowered(ready, target, builder, partial(_add_kernel, codes))
        codes.add(program.main, program.main_pipeline, is_last=True)
        with trace.span("machine code", "compile", modules=len(program.modules) + 1):
            objects = codes.finished()
    tables = [np.frombuffer(table, np.uint8) for table in program.tables]
    constants = [aligned(a) for c in assignment.constants for a in constant_arrays(c)] + list(map(aligned, tables))
    made = SerializedExecutable(
        objects,
        constants,
        CompiledMemoryStats.of(assignment, program),
        aligned_results=sorted(program.aligned_results),
        collectives=with_origins(program.collectives, module),
    )
    calls = program.native_calls
    if calls and not program.imports:
        from xloom.cpu.custom_calls import native_call  # which few programs need

        made.native_calls = native_call.to_bytes(calls)
        numbers = {call.instruction: call.number for call in calls}
        made.failing = [numbers[instruction] for instruction in program.calls]
    return made, program


def _add_kernel(codes: ObjectFiles, module: KernelModule) -> None:
    if module.objects:
        codes.have(module.objects)
    else:
        codes.add(module.text, module.pipeline)
