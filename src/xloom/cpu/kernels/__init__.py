"""Operators with a kernel of their own, one family per file: each has a real algorithm, not a generic loop."""

from __future__ import annotations

from importlib import import_module

from xloom.codegen.ops import OP_ROWS
from xloom.cpu.kernel_modules.kernel import KERNELS, Rule
from xloom.cpu.kernels import facts  # noqa: F401 - registers them
from xloom.cpu.kernels.matmul import dot  # noqa: F401 - loaded with the compiler, as most programs have products


def rule_of(opcode: str) -> Rule | None:
    """The rule of an opcode with a kernel of its own."""
    if opcode not in KERNELS and (file := OP_ROWS[opcode].kernel):
        import_module(f"{__name__}.{file}")
    return KERNELS.get(opcode)
