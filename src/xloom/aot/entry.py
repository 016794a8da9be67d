"""The native code of an exported program, whose custom calls are the linker's symbols."""

from __future__ import annotations

from llvmlite import ir

from xloom.aot.lapack import routine_of
from xloom.calls.jaxlib_handlers import is_of_jaxlib
from xloom.calls.registry import ABIS, Registration, place
from xloom.calls.torch_routines import PREFIX
from xloom.cpu.entry.emitted_program import EmittedProgram
from xloom.cpu.entry.function import EntryBuilder
from xloom.cpu.machine_code import serialized
from xloom.cpu.runtime.serialized_executable import SerializedExecutable
from xloom.cpu.runtime.spmd_executable import is_spmd
from xloom.errors import LoweringError
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.target import Target

_NAMES = {version: abi for abi, version in ABIS.items()}
_OF_PYTHON = ("infeed", "outfeed", "send", "recv", "send-done", "recv-done")


class LinkTimeEntryBuilder(EntryBuilder):
    """Emits an entry function that calls the functions of C that custom calls name."""

    def registration_of(self, call: Instruction) -> Registration:
        """A function that the linker finds. Raises LoweringError for what Python alone has."""
        target, abi = call["custom_call_target"], _NAMES.get(call["api_version"], "")
        of_python = target.startswith(PREFIX) or (is_of_jaxlib(target) and routine_of(target) is None)
        if not abi or of_python:
            raise LoweringError(
                f"an exported program cannot call {target!r}"
                + ("" if of_python else f", whose ABI is {call['api_version']}"),
                where=place(call),
                hint="it is Python's: run the program by xl.compile, or take the call out of what is exported"
                if of_python
                else f"call a function of one of the ABIs {', '.join(ABIS)}",
            )
        return Registration(target, "Host", abi=abi, answer="")

    def takes_any_address(self, registration: Registration) -> bool:
        """See the base class."""
        return routine_of(registration.name) is not None

    def imported(self, address: int, kind: ir.FunctionType, keep: object) -> ir.Function:
        """Raises LoweringError: what has an address in this process is not in another."""
        hint = "take callbacks out of what is exported, or run it by xl.compile"
        raise LoweringError("an exported program cannot call back into Python", hint=hint)


def native_code(module: Module, target: Target) -> tuple[SerializedExecutable, EmittedProgram]:
    """The object files of a program, and what it calls.

    Raises LoweringError for what needs Python: infeed and outfeed, callbacks, several devices, dynamic sizes.
    """
    if is_spmd(module):
        raise LoweringError("a program of several devices cannot be exported", where=module.name)
    if has_dynamic(module):
        raise LoweringError(
            "a program with arrays of dynamic size cannot be exported", where=module.name, hint="give them fixed sizes"
        )
    for instruction in module.instructions:
        if instruction.opcode in _OF_PYTHON:
            raise LoweringError(
                f"an exported program has no {instruction.opcode}",
                where=place(instruction),
                hint="pass what goes in as an argument, and what comes out as a result",
            )
    return serialized(module, target, LinkTimeEntryBuilder)
