"""What planning asks of the kernels of this backend."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.codegen.kernel_facts import overwrites
from xloom.cpu.kernels import facts  # noqa: F401 - which operands its kernels leave unread
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target


@overwrites("scatter", gpu=True)
def _scattered(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    return (leaf,)
