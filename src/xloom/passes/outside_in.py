"""Expansion of what computations call, from the outside to the inside: every instruction is copied once.

From the inside to the outside, the innermost ones are copied once for each level: as quick where levels are few.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction

_DEEP = 32


def is_deep(top: Computation, opcodes: Container[str]) -> bool:
    """Whether instructions of these opcodes call each other many levels down, in `top` and in what it calls."""
    depths: dict[Computation, int] = {}
    for computation in callees_first([top]):
        inside = [
            depths.get(callee, 0) + (instruction.opcode in opcodes)
            for instruction in computation
            for callee in instruction.called_computations
        ]
        depths[computation] = max(inside, default=0)
    return depths[top] > _DEEP


def expand_from_outside(
    top: Computation,
    expand: Callable[[Instruction], Sequence[Instruction] | None],
    editable: Container[Computation] | None = None,
) -> bool:
    """Expands instructions of `top`, what that puts in their place, and those of the computations still called then.

    `expand` returns what it has put there, None where it does nothing. True if it did anything.
    """
    reached, seen = [top], {top}
    changed = False
    while reached:
        computation = reached.pop()
        if computation.module is None or (editable is not None and computation not in editable):
            continue  # it went with its last caller, or is not to be touched
        waiting = list(computation)[::-1]
        while waiting:
            instruction = waiting.pop()
            if instruction.parent is not computation:
                continue  # it went with another
            made = expand(instruction)
            if made is not None:
                changed = True
                waiting += reversed(made)
                continue
            fresh = [c for c in instruction.called_computations if c not in seen]
            seen.update(fresh)
            reached += fresh
    return changed
