"""Keeps scheduled modules in a valid order when passes add instructions."""

from __future__ import annotations

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module


def restore_schedule(module: Module) -> None:
    """Moves instructions that stand after their first user or control successor to just before it."""
    for computation in module.computations:
        computation.reorder(in_order(computation))


def in_order(computation: Computation) -> list[Instruction]:
    """The instructions as they stand, but each after its operands and control predecessors."""
    placed: dict[Instruction, None] = {}
    for start in computation:
        stack = [start]
        while stack:
            instruction = stack[-1]
            waiting = [i for i in (*instruction.control_predecessors, *instruction.operands) if i not in placed]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                stack.pop()
                placed[instruction] = None
    return list(placed)
