"""From a prepared module to LLVM IR: the stages between, see `cpu/stages.py`."""

from __future__ import annotations

from collections.abc import Callable

from xloom import checks
from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.schedule.thunks import ScheduledComputation, scheduled
from xloom.cpu.buffer_verifier import verify_buffers
from xloom.cpu.entry.emitted_program import EmittedProgram, KernelModule
from xloom.cpu.entry.function import EntryBuilder
from xloom.hlo.module import Module
from xloom.llvm.target import Target


def lower(
    assignment: BufferAssignment,
    builder: Callable[..., EntryBuilder] = EntryBuilder,
    on_kernel: Callable[[KernelModule], None] | None = None,
) -> EmittedProgram:
    """The LLVM IR of a program; `on_kernel` gets each kernel as soon as it is there.

    Without it, kernels are written out that are known already. Raises LoweringError for what has no native code.
    """
    entry = builder(assignment, on_kernel)
    program = entry.emit()
    if checks.is_checked("buffers"):
        verify_buffers(assignment.entry, assignment, entry.events)
    return program


def lowered(
    module: Module,
    target: Target,
    builder: Callable[..., EntryBuilder] = EntryBuilder,
    on_kernel: Callable[[KernelModule], None] | None = None,
) -> tuple[ScheduledComputation, BufferAssignment, EmittedProgram]:
    """What the stages between preparation and machine code make of a prepared module for a target."""
    schedule = scheduled(module.entry)
    assignment = assigned(schedule, target)
    return schedule, assignment, lower(assignment, builder, on_kernel)
