"""HLO to a native program: the stages, one after another."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.cpu import jit
from xloom.cpu.buffers import Assignment
from xloom.cpu.entry import MAIN, PARALLEL_FOR, EntryBuilder, Program
from xloom.cpu.executable import Executable
from xloom.cpu.plan import Block, block_of
from xloom.cpu.prepare import prepared
from xloom.cpu.threads import pool
from xloom.hlo.module import Module


def compile(module: Module) -> Executable:
    """Native code for `module`, which stays as it is.

    Raises VerifyError for an invalid module, LoweringError for what has no native code.
    """
    block, assignment, program = lowered(prepared(module))
    objects = machine_code([program.main, *(u.text for u in program.units.values())])
    library = jit.Library(objects, [MAIN], {PARALLEL_FOR: pool().parallel_for_address, **program.imports})
    return Executable(module, block, assignment, program, library)


def lowered(module: Module) -> tuple[Block, Assignment, Program]:
    """A prepared module's schedule, memory and LLVM IR."""
    block = block_of(module.entry)
    assignment = Assignment(block)
    return block, assignment, EntryBuilder(block, assignment).program


def machine_code(texts: Sequence[str]) -> list[bytes]:
    """Object files of LLVM modules."""
    return [jit.object_code(text) for text in texts]
