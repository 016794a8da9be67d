"""How much memory a program needs, and for which arrays."""

from __future__ import annotations

from collections import defaultdict

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.names import array_name, array_shape, bytes_text, place_text
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target

LARGEST = 10
"""How many arrays are listed."""
_NAMES = 4
"""How many arrays of one allocation are named."""


def memory_text(module: Module, target: Target | None = None) -> str:
    """Bytes by kind, and the largest arrays with the positions in the schedule at which they live.

    "aliased" are results that lie in the memory of donated arguments.
    Raises LoweringError for what has no native code.
    """
    _, assignment, program = lowered(prepared(module, target=target), target or process_target())
    memory = CompiledMemoryStats.of(assignment, program)
    lines = [
        f"{name:12}{bytes_text(count):>12}"
        for name, count in (
            ("arguments", memory.argument_bytes),
            ("results", memory.result_bytes),
            ("constants", memory.constant_bytes),
            ("temporaries", memory.temporary_bytes),
            ("aliased", memory.aliased_bytes),
            ("peak", memory.peak_bytes),
        )
    ]
    lines.append("the largest arrays, those in the same memory together")
    lines += [_line(assignment, allocation, arrays) for allocation, arrays in _largest(assignment)]
    return "\n".join(lines) + "\n"


def _largest(assignment: BufferAssignment) -> list[tuple[BufferAllocation, list[BufferValue]]]:
    arrays: dict[BufferAllocation, list[BufferValue]] = defaultdict(list)
    for value, allocation in assignment.allocations.items():
        arrays[allocation].append(value)
    return sorted(arrays.items(), key=lambda item: -item[0].nbytes)[:LARGEST]


def _line(assignment: BufferAssignment, allocation: BufferAllocation, arrays: list[BufferValue]) -> str:
    names = [f"{array_name(s)} {array_shape(s)}" for s in arrays[:_NAMES]]
    if len(arrays) > _NAMES:
        names.append(f"and {len(arrays) - _NAMES} more")
    whole = allocation.kind in ("argument", "result", "constant", "code")
    lives = "whole run" if whole else f"thunks {allocation.first} to {allocation.last}"
    where = place_text(allocation, assignment)
    return f"  {bytes_text(allocation.nbytes):>10}  {where:24}  {lives:18}  {', '.join(names)}"
