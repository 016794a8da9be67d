"""How many items of a phase are worth a thread."""

from __future__ import annotations

from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.llvm.symbolic_dimension import greatest

_OPERATIONS = 400000
"""Operations of f32 in about 4 µs: where sharing them does not pay, the pool finds out."""


def grain(operations: int, arithmetic: Arithmetic) -> int:
    """The number of items that take about 4 µs, when each takes that many multiplications and additions."""
    share = _OPERATIONS * 4 // (arithmetic.dtype.real.bytes * arithmetic.parts**2)
    return greatest(1, share // greatest(1, operations))
