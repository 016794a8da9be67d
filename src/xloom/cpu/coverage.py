"""What has native code, and how: of an opcode, and of a program."""

from __future__ import annotations

from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.fusion_group import is_alias
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.ops import OP_ROWS, Role
from xloom.codegen.schedule.thunks import ScheduledComputation, scheduled
from xloom.cpu.entry.function import EntryBuilder
from xloom.cpu.kernels import rule_of
from xloom.cpu.prepare import prepared
from xloom.errors import CustomCallError, LoweringError
from xloom.hlo.module import Module
from xloom.llvm.target import process_target
from xloom.trampoline import Nested


def lowering_kind(opcode: str) -> str:
    """How the CPU compiler treats an opcode; empty when it has no native code.

    "loops": a part of loop nests; "kernel": code of its own; "entry": a part of the entry function, control flow for
    example; "no code": it only says whose memory a value is; "rewritten": in terms of others, on one device.
    """
    row = OP_ROWS[opcode]
    if row.role is Role.KERNEL and rule_of(opcode) is None:
        return ""
    return "no code" if is_alias(opcode) else _WAYS[row.role]


_WAYS = {
    Role.ELEMENT: "loops",
    Role.ROOT: "loops",
    Role.KERNEL: "kernel",
    Role.ENTRY: "entry",
    Role.CONTROL: "entry",
    Role.ALIAS: "no code",
    Role.REWRITTEN: "rewritten",
}


def missing(module: Module) -> list[LoweringError]:
    """An error for each instruction of a program that has no native code, as `compile` raises it for the first."""
    try:
        survey = _Survey(assigned(scheduled(prepared(module).entry), process_target()))
        survey.emit()
        return survey.errors
    except LoweringError as error:
        return [error]


class _Survey(EntryBuilder):
    """Emits all that can be emitted, and keeps the errors."""

    def __init__(self, assignment: BufferAssignment):
        self.errors: list[LoweringError] = []
        super().__init__(assignment)

    def emit_thunk(self, schedule: ScheduledComputation, thunk: Thunk, number: int) -> Nested[None] | None:
        """Emits a thunk as EntryBuilder does, but keeps its LoweringError and goes on."""
        try:
            return super().emit_thunk(schedule, thunk, number)
        except LoweringError as error:
            self.errors.append(error)
        except CustomCallError:
            pass  # native once code is registered
        return None
