"""A program of several devices whose values are checked on each of them, by native code alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from xloom.cpu.runtime.spmd_executable import SpmdExecutable
from xloom.errors import CheckError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.instrumentation import numbered


def checked_spmd(
    module: Module, checks: Collection[str], compile: Callable[[Module], SpmdExecutable]
) -> SpmdExecutable | CheckedSpmdExecutable:
    """A program that is checked, if there is something to check. `compile` makes native code."""
    found = numbered(module, checks)
    return compile(module) if found is None else CheckedSpmdExecutable(module, checks, compile(found[0]), found[1])


class CheckedSpmdExecutable:
    """Runs as `SpmdExecutable` does. Raises CheckError on a device that does what it is checked for.

    The devices run to their ends: what one has done is no reason for the others to wait in vain.
    """

    key = None
    """No machine code is kept under the module that it comes from."""
    direct = None
    """Results are looked at after each run."""

    def __init__(
        self, module: Module, checks: Collection[str], executable: SpmdExecutable, instructions: list[Instruction]
    ):
        """`executable` is the module `numbered`, and `instructions` are those that have the numbers."""
        self.module = module
        self._checks, self._executable, self._instructions = checks, executable, instructions
        self._is_tuple = module.entry.root.shape.is_tuple
        # as `SpmdExecutable`
        self.memory, self.outfeed, self.collectives = executable.memory, executable.outfeed, executable.collectives
        self.rendezvous = executable.rendezvous

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """As `SpmdExecutable`."""
        values = self._executable(*arguments, **options)
        if values[-1]:
            raise self._error(self._instructions[int(values[-1]) - 1])
        return values[:-1] if self._is_tuple else values[0]

    def _error(self, instruction: Instruction) -> CheckError:
        names = ", ".join(sorted(self._checks))
        found = CheckError(
            f"{instruction.opcode} does what is checked for ({names}) on this device",
            where=f"{instruction.name} {instruction.metadata.location}".strip(),
            hint="its operands do not do it: run the program of one device, or the instruction alone, for the element",
        )
        found.instruction = instruction.name
        return found
