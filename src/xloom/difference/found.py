"""What was found, and the files that reproduce it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import source_line
from xloom.interpreter.bounds import leaves
from xloom.interpreter.registry import Value


@dataclass(frozen=True)
class FirstDifference:
    """The first instruction whose value differs by more than its bound.

    `inside` says in which loops, at which iterations, and branches it is. `index` is that of the first element that
    differs, in array number `part` of the value; `ulps` how far it is off, in units in the last place, 0 where that
    means nothing; `count` of `size` elements differ.
    """

    instruction: Instruction
    inside: tuple[str, ...]
    part: int
    index: tuple[int, ...]
    found: object
    expected: object
    ulps: float
    count: int
    size: int
    found_by: str
    expected_by: str
    alone: bool
    """It differs for its operands' values alone. If False, only in the program: it is fused, or rounding added up."""
    module: Module = field(repr=False)
    """The instruction, with its operands as parameters."""
    operands: Sequence[Value] = field(repr=False)
    """What these were, by the side that is judged."""
    arguments: Sequence[Value] = field(repr=False)
    """Of the program."""

    def __str__(self) -> str:
        part = f" result {self.part}" if self.instruction.shape.is_tuple else ""
        at = "[" + ",".join(map(str, self.index)) + "]"
        far = f", {self.ulps:.4g} ULPs away" if self.ulps else ""
        place = source_line(self.instruction)
        lines = [
            f"%{self.instruction.name}, {self.instruction.opcode}, is the first that differs:{part} {at} is "
            f"{self.found} by {self.found_by}, and {self.expected} by {self.expected_by}{far} "
            f"({self.count} of {self.size} elements differ)",
            f"  {self.instruction.to_text(print_metadata=False)}",
            *([f"  at {place}"] if place else []),
            *(f"  in {where}" for where in self.inside),
        ]
        if not self.alone:
            lines.append(
                "  computed alone, it does not differ for its operands: it does in the program, by how it is fused, or "
                "by rounding that adds up"
            )
        return "\n".join(lines)

    def save(self, folder: str | Path) -> None:
        """Writes the instruction as a module, `alone.hlo`, and its operands and the program's arguments as .npy."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alone.hlo").write_text(self.module.to_text(print_large_constants=True), encoding="utf-8")
        for name, values in (("operand", self.operands), ("argument", self.arguments)):
            for number, array in enumerate(leaf for value in values for leaf in leaves(value)):
                np.save(folder / f"{name}{number}.npy", array)
