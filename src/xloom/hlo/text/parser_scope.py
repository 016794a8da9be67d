"""What the names in a module's text stand for, as far as it has been read."""

from __future__ import annotations

from xloom.errors import near
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.names import sanitize
from xloom.hlo.text.lexer import Cursor


class ModuleScope:
    """A module's computations so far: by the names that the text gives them, and in the order in which they end."""

    def __init__(self, cursor: Cursor):
        self.cursor = cursor
        self.computations: dict[str, Computation] = {}
        self.order: list[Computation] = []  # those without a name too
        self.instruction_names: set[str] = set()

    def declare(self, computation: Computation, name: str, start: int) -> None:
        """`name`, which stands at `start`, is `computation` from here on."""
        if name in self.computations:
            self.cursor.error(f"computation {name!r} already exists", start)
        self.computations[name] = computation
        self.order.append(computation)

    def computation(self, name: str, start: int) -> Computation:
        """What `name`, which stands at `start`, is."""
        found = self.computations.get(name)
        if found is None:
            hint = near(name, self.computations) or "a computation stands before its callers"
            self.cursor.error(f"computation does not exist: {name}", start, hint=hint)
        return found


class Scope:
    """The instructions so far of one computation, by the names that the text gives them.

    `depth` counts the instructions that hold the one that is being read, in this computation and around it.
    """

    def __init__(self, module: ModuleScope, computation: Computation, depth: int = 0):
        self.module = module
        self.cursor = module.cursor
        self.computation = computation
        self.instructions: dict[str, Instruction] = {}
        self.parameter_numbers: set[int] = set()
        self.depth = depth

    def declare(self, instruction: Instruction, name: str, start: int) -> None:
        """`name`, which stands at `start`, is `instruction` from here on; without a name it gets one of its own."""
        used = self.module.instruction_names
        if name:
            if sanitize(name) != name:
                self.cursor.error(f"illegal instruction name {name!r}", start, hint=f"rename it to {sanitize(name)!r}")
            if name in self.instructions:
                self.cursor.error(f"instruction {name!r} already exists", start)
        else:
            wish, number = f"{instruction.opcode}.anon", 0
            while (name := f"{wish}.{number}" if number else wish) in used:
                number += 1
            instruction.name = name
        self.instructions[name] = instruction
        used.add(name)

    def instruction(self, name: str, start: int) -> Instruction:
        """What `name`, which stands at `start`, is."""
        found = self.instructions.get(name)
        if found is None:
            self.cursor.error(f"instruction does not exist: {name}", start, hint=near(name, self.instructions))
        return found

    def element(self, of: Instruction, name: str, index: int, start: int) -> Instruction:
        """What `name#index`, whose name stands at `start`, is: an element of the tuple `of`, taken out once."""
        key = f"{name}#{index}"
        if key not in self.instructions:
            if not of.shape.is_tuple or not 0 <= index < len(of.shape.elements):
                self.cursor.error(f"{name} of shape {of.shape} has no element {index}", start)
            gte = Instruction(sanitize(key), "get-tuple-element", of.shape.elements[index], [of], {"index": index})
            self.instructions[key] = self.computation.add(gte)
        return self.instructions[key]
