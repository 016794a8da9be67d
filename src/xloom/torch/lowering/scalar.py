"""A Python number that is an argument of the program rather than a constant in it."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.hlo.instruction import Instruction


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """`instruction` has the value, of rank 0; `kind` is the number's Python type, which decides promotion."""

    instruction: Instruction
    kind: type
