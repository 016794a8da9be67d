"""Thunks that are a scatter of what is computed for each update: the scatter's kernel, which computes that itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import ThunkCode
from xloom.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder
    from xloom.cpu.kernel_modules.kernel import Kernel


def fused_scatter(entry: EntryBuilder, schedule: ScheduledComputation, fusion: Instruction) -> None:
    """Calls the kernel, on a copy of the operand that is changed unless its memory may be."""
    from xloom.cpu.kernels.scatter import emit_scatter

    inside = fusion["calls"]
    scatter = inside.root
    inlined = {i for i in inside if i.opcode != "parameter" and i is not scatter}
    read = {o for i in inlined for o in i.operands} | {*scatter.operands[1:]}
    numbers: dict[BufferValue, int] = {(p, 0): p["parameter_number"] for p in inside.parameters if p in read}

    def rule(kernel: Kernel, instruction: Instruction) -> None:
        emit_scatter(kernel, instruction, inlined, numbers)

    shapes = [o.shape for o in fusion.operands]
    _, code = entry.kernel_modules.of_rule(scatter, rule, frozenset(), shapes)
    target, operands = entry.assignment.of((fusion, 0)), [entry.assignment.of((o, 0)) for o in fusion.operands]
    entry.copy(target, operands[0])
    scratch = entry.call(code, [entry.pointer(a) for a in (*operands, target)])
    assert not scratch
    entry.program.code[fusion] = ThunkCode(code.module_name, code.phases, choices=code.choices)
