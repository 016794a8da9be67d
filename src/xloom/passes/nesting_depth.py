"""How deep computations call each other."""

from __future__ import annotations

from collections.abc import Container

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation

DEEP = 32
"""What is deeper is expanded from the outside to the inside, where every instruction is copied once.

From the inside to the outside, as other programs are, the innermost instructions are copied once for each level.
"""


def nesting_depth(top: Computation, opcodes: Container[str]) -> int:
    """The most calls by instructions of these opcodes that are in each other, in `top` and in what it calls."""
    depths: dict[Computation, int] = {}
    for computation in callees_first([top]):
        inside = [
            depths.get(callee, 0) + (instruction.opcode in opcodes)
            for instruction in computation
            for callee in instruction.called_computations
        ]
        depths[computation] = max(inside, default=0)
    return depths[top]
