"""The order of rows that an LU factor's pivots make."""

from __future__ import annotations

import math

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access
from xloom.llvm.loop import SCALAR, loop
from xloom.llvm.types import I32, I64

_EXCHANGES = 5_000
"""Of one thread in about 20 µs."""


def permutation(kernel: Kernel, instruction: Instruction) -> None:
    """s32[..., k] of rows, from 0, that each of the first ones is exchanged with in turn, to s32[..., m], which row
    comes to each place."""
    *outer, count = kernel.operands[0].dims
    rows = kernel.outputs[0].dims[-1]
    with kernel.phase(math.prod(outer), max(1, _EXCHANGES // max(1, rows))) as p, loop(p.b, p.begin, p.end) as number:
        b = p.b
        pivots, order = p.operand(0), p.output(0)
        first, first_pivot = b.mul(number, I64(rows)), b.mul(number, I64(count))
        with loop(b, 0, rows, name="row") as i:
            element_access.store(b, order, s32, b.add(first, i), b.trunc(i, I32))
        with loop(b, 0, count, name="pivot", hints=SCALAR) as i:
            pivot = element_access.load(b, pivots, s32, b.add(first_pivot, i))
            here, there = b.add(first, i), b.add(first, b.sext(pivot, I64))
            upper, lower = (element_access.load(b, order, s32, at) for at in (here, there))
            element_access.store(b, order, s32, here, lower)
            element_access.store(b, order, s32, there, upper)
