"""How many instructions a program has where each call has a copy of what it calls to itself."""

from __future__ import annotations

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import CALLERS, Instruction
from xloom.trampoline import Nested, run

MOST = 1 << 18
"""Instructions that calls may make of fewer: two calls of what has two calls, and so on, soon make more than any."""


def overgrown_call(top: Computation, most: int = MOST) -> tuple[Instruction, int] | None:
    """A call of `top`, or of what it calls, and how many instructions it stands for, where these are too many.

    Programs may have as many as they like, and twice that when they are expanded.
    """
    sizes: dict[Computation, int] = {}
    whole = run(_size(top, sizes))
    if whole <= max(most, 2 * sum(map(len, sizes))):
        return None
    calls = ((i, sum(sizes[c] for c in i.called_computations)) for i in top if i.opcode in CALLERS)
    return max(calls, key=lambda found: found[1])


def _size(computation: Computation, sizes: dict[Computation, int]) -> Nested[int]:
    if computation not in sizes:
        sizes[computation] = 0  # also for one that calls itself, which verifiers find
        total = len(computation)
        for instruction in computation._instructions:
            for callee in instruction.called_computations if instruction.opcode in CALLERS else ():
                total += yield _size(callee, sizes)
        sizes[computation] = total
    return sizes[computation]
