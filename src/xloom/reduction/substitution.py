"""A value becomes an operand, another value of its shape, or zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.reduction.base import Places, Reduction, Site, UnfitError, host

_HANDED_IN = frozenset(("parameter", "get-tuple-element"))
_MOST_ALIKE = 2
"""Other values of its shape that are tried for one."""


@dataclass(frozen=True)
class ValueToOperand(Reduction):
    """Users of an instruction read one of its operands instead, or what is handed in: (computation, both numbers)."""

    name: ClassVar[str] = "use operands"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        found: list[Site] = []
        for c, computation in enumerate(module.computations):
            numbers = {i: k for k, i in enumerate(computation.instructions)}
            handed_in: dict[Shape, list[int]] = {}
            for instruction, k in numbers.items():
                alike = [numbers[o] for o in dict.fromkeys(instruction.operands) if o.shape == instruction.shape]
                seen = handed_in.setdefault(instruction.shape, [])
                found += [(c, k, other) for other in dict.fromkeys(alike + seen[:_MOST_ALIKE])]
                if instruction.opcode in _HANDED_IN:
                    seen.append(k)
        return found[::-1]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        replaced: dict[Instruction, Instruction] = {}
        for c, k, other in sites:
            old, new = places.at(c, k), places.at(c, other)
            while new in replaced:
                new = replaced[new]
            if old not in replaced and new is not old:
                old.replace_all_uses_with(new)
                replaced[old] = new


@dataclass(frozen=True)
class ValueToZeros(Reduction):
    """Users of an instruction read zeros instead: (computation, instruction)."""

    name: ClassVar[str] = "use zeros"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        found = [
            (c, k)
            for c, computation in enumerate(module.computations)
            for k, i in enumerate(computation.instructions)
            if i.opcode != "constant" and i.shape.is_array and not i.shape.is_dynamic and (i.users or i.is_root)
        ]
        return found[::-1]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        for c, k in sites:
            instruction = places.at(c, k)
            instruction.replace_all_uses_with(zeros(host(instruction), instruction.shape))


def zeros(computation: Computation, shape: Shape) -> Instruction:
    """An array of zeros, added to a computation. Raises UnfitError for what is no array of static size."""
    if not shape.is_array or shape.is_dynamic:
        raise UnfitError
    number = literal(np.zeros((), shape.dtype.numpy))
    constant = computation.add(Instruction("zero", "constant", number.shape, (), {"literal": number}))
    if not shape.rank:
        return constant
    return computation.add(Instruction("zeros", "broadcast", shape, [constant], {"dimensions": ()}))
