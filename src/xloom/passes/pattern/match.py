"""Where a pattern was found, and how far a search came that found none."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.passes.pattern.dims import Dims
from xloom.passes.pattern.operators import Mismatch
from xloom.passes.pattern.pattern import Variant
from xloom.passes.pattern.views import is_view


@dataclass
class Match:
    """Where a variant of a pattern was found."""

    variant: Variant
    outputs: list[Instruction] = field(default_factory=list)
    """The program's value for each output of the pattern."""
    operands: dict[Instruction, Instruction] = field(default_factory=dict)
    """The program's value for each parameter that the match reaches."""
    inside: dict[Instruction, None] = field(default_factory=dict)
    """Every instruction that the match replaces: operators, constants, and views between them."""
    values: dict[Instruction, tuple[Instruction, Dims | None]] = field(default_factory=dict)
    """What stands for each parameter, operator and output of the pattern, and how dimensions correspond."""
    negated: dict[Instruction, None] = field(default_factory=dict)
    """The operators of the pattern whose truth values are the negation of those in `values`."""
    dtypes: dict[str, DType] = field(default_factory=dict)
    counts: list[tuple[Instruction, Instruction]] = field(default_factory=list)
    """Constants to check when all reductions are known."""
    constants: dict[Instruction, np.generic] = field(default_factory=dict)
    """The program's number for each constant of the pattern that stands for any, or for one of known value."""
    choices: dict[Instruction, Instruction] = field(default_factory=dict)
    """The operand of each choice of the pattern that matched."""
    arrays: dict[Instruction, None] = field(default_factory=dict)
    """The program's constants that stand for any value and are not one number: a call takes them as operands."""
    folded: dict[Instruction, None] = field(default_factory=dict)
    """Instructions inside that compute scalars from constants alone."""
    aliases: dict[Instruction, Instruction] = field(default_factory=dict)
    """Views that are the same as operands: of the same value, written twice."""
    unused: int = 0
    """How many dimensions of the pattern's result stand for none of the program's."""

    @property
    def size(self) -> int:
        """How many operators the match holds, views and constants not counted."""
        return sum(not is_view(i) and i.opcode != "constant" for i in self.inside)

    def copy(self) -> Match:
        """For a search that may come back."""
        return Match(
            self.variant,
            list(self.outputs),
            dict(self.operands),
            dict(self.inside),
            dict(self.values),
            dict(self.negated),
            dict(self.dtypes),
            list(self.counts),
            dict(self.constants),
            dict(self.choices),
            dict(self.arrays),
            dict(self.folded),
            dict(self.aliases),
            self.unused,
        )


@dataclass
class Miss:
    """The farthest that a failed search came."""

    matched: int = -1
    reason: str = ""
    pattern: Instruction | None = None
    program: Instruction | None = None


class Misses:
    """The reasons why the ways of one search have failed, of which the farthest way's is kept."""

    def __init__(self):
        self.farthest = Miss()
        self.about_dims = False
        """Whether another correspondence of dimensions may be better."""

    def add(self, match: Match, pattern: Instruction, program: Instruction, mismatch: Mismatch) -> None:
        """Another way has ended, at an instruction of the pattern and one of the program."""
        self.about_dims |= mismatch.about_dims
        matched = sum(p.opcode != "parameter" for p in match.values)
        if matched > self.farthest.matched:
            self.farthest = Miss(matched, mismatch.reason, pattern, program)
