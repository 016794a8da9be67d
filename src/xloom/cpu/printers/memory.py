"""How much memory a program needs, and for which arrays."""

from __future__ import annotations

from collections import defaultdict

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.buffers.assignment import BufferAllocation, BufferAssignment
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.names import array_name, array_shape, bytes_text, place_text
from xloom.cpu.runtime.executable import Memory
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target

LARGEST = 10
"""How many arrays are listed."""
_NAMES = 4


def memory_text(module: Module, target: Target | None = None) -> str:
    """Bytes by kind, and the largest arrays with the steps of the schedule at which they live.

    "both" are results that lie in the memory of donated arguments.
    Raises LoweringError for what has no native code.
    """
    _, assignment, program = lowered(prepared(module), target or process_target())
    memory = Memory.of(assignment, program)
    lines = [
        f"{name:12}{bytes_text(count):>12}"
        for name, count in (
            ("arguments", memory.argument_bytes),
            ("results", memory.result_bytes),
            ("constants", memory.constant_bytes),
            ("temporaries", memory.temporary_bytes),
            ("both", memory.aliased_bytes),
            ("peak", memory.peak_bytes),
        )
    ]
    lines.append("the largest arrays, those in the same memory together")
    lines += [_line(assignment, slot, arrays) for slot, arrays in _largest(assignment)]
    return "\n".join(lines) + "\n"


def _largest(assignment: BufferAssignment) -> list[tuple[BufferAllocation, list[BufferValue]]]:
    arrays: dict[BufferAllocation, list[BufferValue]] = defaultdict(list)
    for source, slot in assignment.slots.items():
        arrays[slot].append(source)
    return sorted(arrays.items(), key=lambda item: -item[0].nbytes)[:LARGEST]


def _line(assignment: BufferAssignment, slot: BufferAllocation, arrays: list[BufferValue]) -> str:
    names = [f"{array_name(s)} {array_shape(s)}" for s in arrays[:_NAMES]]
    if len(arrays) > _NAMES:
        names.append(f"and {len(arrays) - _NAMES} more")
    whole = slot.kind in ("argument", "result", "constant", "code")
    lives = "whole run" if whole else f"steps {slot.first} to {slot.last}"
    return f"  {bytes_text(slot.nbytes):>10}  {place_text(slot, assignment):24}  {lives:18}  {', '.join(names)}"
