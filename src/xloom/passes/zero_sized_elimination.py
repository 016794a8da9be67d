"""Arrays without elements, which nothing needs to compute."""

from __future__ import annotations

import numpy as np

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.dce import remove_dead
from xloom.passes.effects import Effects
from xloom.passes.rewrite import editable_computations

_STAY = frozenset({"parameter", "constant"})


@register
class ZeroSizedElimination(Pass):
    """Puts a constant in the place of each array without elements, and removes what that leaves unused.

    So code of others is not called for nothing: some routines of LAPACK end the process where there are no rows.
    """

    name = "zero-sized-elimination"

    def run(self, module: Module) -> bool:
        """See the class."""
        if not any(_is_empty_array(i) for c in editable_computations(module) for i in c):
            return False
        pin_roots(module)
        effects = Effects()
        return any([_without_empty_arrays(c, effects) for c in editable_computations(module)])


def _without_empty_arrays(computation: Computation, effects: Effects) -> bool:
    found = [i for i in computation if _is_empty_array(i) and not effects.of(i)]
    for old in found:
        literal = Literal(old.shape, np.empty(old.shape.dims, old.shape.dtype.numpy))
        new = computation.add(Instruction("empty", "constant", old.shape, (), {"literal": literal}))
        new.metadata, new.sharding = old.metadata, old.sharding
        old.replace_all_uses_with(new)
    if found:
        remove_dead(computation, effects)
    return bool(found)


def _is_empty_array(instruction: Instruction) -> bool:
    return (
        instruction.shape.is_array
        and not instruction.shape.size
        and instruction.opcode not in _STAY
        and not (instruction.control_predecessors or instruction.control_successors)
    )
