"""In which order calls are replaced by what they call: innermost first or, where they nest deeply, outermost first.

From the inside, the innermost instructions are copied once for each level; from the outside, every one once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.rewrite import editable_computations

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


Expand = Callable[[Instruction], Sequence[Instruction] | None]
"""Gives what it has put in the place of an instruction; None where that stays."""


def expand_all(module: Module, opcodes: Container[str], expand: Expand) -> bool:
    """Expands what calls in all computations that a pass may edit; where it goes deep, in those still reached then.

    True if it did anything.
    """
    editable = editable_computations(module)
    if is_deep(module.entry, opcodes):
        return expand_from_outside(module.entry, expand, set(editable))
    # callees first, so that what is copied has none left in it
    return any([_expand(computation, expand)[0] for computation in editable])


def expand_from_outside(top: Computation, expand: Expand, editable: Container[Computation] | None = None) -> bool:
    """Expands instructions of `top`, what that puts in their place, and those of the computations still called then."""
    reached, seen = [top], {top}
    changed = False
    while reached:
        computation = reached.pop()
        if computation.module is None or (editable is not None and computation not in editable):
            continue  # it went with its last caller, or is not to be touched
        did, stayed = _expand(computation, expand)
        changed |= did
        for instruction in stayed:
            fresh = [c for c in instruction.called_computations if c not in seen]
            seen.update(fresh)
            reached += fresh
    return changed


def _expand(computation: Computation, expand: Expand) -> tuple[bool, list[Instruction]]:
    """Whether it did anything, and what has stayed."""
    waiting, stayed = list(computation)[::-1], []
    changed = False
    while waiting:
        instruction = waiting.pop()
        if instruction.parent is not computation:
            continue  # it went with another
        made = expand(instruction)
        if made is None:
            stayed.append(instruction)
            continue
        changed = True
        waiting += reversed(made)
    return changed, stayed
