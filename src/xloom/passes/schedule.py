"""Keeps scheduled modules in a valid order when passes add instructions."""

from __future__ import annotations

from xloom.hlo.module import Computation, Instruction, Module


def restore_schedule(module: Module) -> None:
    """Moves each instruction before its first user or control successor; otherwise the order stays as it is."""
    for computation in module.computations:
        computation.reorder(_in_order(computation))


def _in_order(computation: Computation) -> list[Instruction]:
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
