"""What has native code, and how: of an opcode, and of a program."""

from __future__ import annotations

from xloom.cpu.buffers import Assignment
from xloom.cpu.entry import NESTED, STEPS, EntryBuilder
from xloom.cpu.fusion import ROOTS, STRUCTURAL
from xloom.cpu.grouping import Step
from xloom.cpu.kernels import rule_of
from xloom.cpu.loops.trace import ELEMENTS
from xloom.cpu.plan import Block, block_of
from xloom.cpu.prepare import INLINED, prepared
from xloom.errors import CustomCallError, LoweringError
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES, Flags
from xloom.passes import batch_norm_expansion, collective_simplification
from xloom.trampoline import Nested


def way_of(opcode: str) -> str:
    """How the CPU compiler treats an opcode; empty when it has no native code.

    "loops": a part of loop nests; "kernel": code of its own; "entry": a part of the entry function, control flow for
    example; "no code": it only says whose memory a value is; "rewritten": in terms of others, on one device.
    """
    if opcode in STRUCTURAL:
        return "no code"
    if opcode in NESTED or (opcode in STEPS and opcode not in INLINED):
        return "entry"
    if opcode in ELEMENTS or opcode in ROOTS:
        return "loops"
    if rule_of(opcode) is not None:
        return "kernel"
    return "rewritten" if _is_rewritten(opcode) else ""


def _is_rewritten(opcode: str) -> bool:
    tables = (batch_norm_expansion.rule, collective_simplification.rule)
    return (
        opcode in INLINED or Flags.ASYNC in OPCODES[opcode].flags or any(opcode in table.by_opcode for table in tables)
    )


def missing(module: Module) -> list[LoweringError]:
    """An error for each instruction of a program that has no native code, as `compile` raises it for the first."""
    try:
        block = block_of(prepared(module).entry)
        return _Survey(block, Assignment(block)).errors
    except LoweringError as error:
        return [error]


class _Survey(EntryBuilder):
    """Emits all that can be emitted, and keeps the errors."""

    def __init__(self, block: Block, assignment: Assignment):
        self.errors: list[LoweringError] = []
        super().__init__(block, assignment)

    def step(self, block: Block, step: Step, number: int) -> Nested[None] | None:
        """See EntryBuilder."""
        try:
            return super().step(block, step, number)
        except LoweringError as error:
            self.errors.append(error)
        except CustomCallError:
            pass  # native once code is registered
        return None
