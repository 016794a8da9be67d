"""Does a module have arrays whose sizes are known only when it runs?"""

from __future__ import annotations

from xloom.hlo.module import Module

OF_SIZES = frozenset({"set-dimension-size", "get-dimension-size"})
"""Opcodes that give and ask sizes."""


def has_dynamic(module: Module) -> bool:
    """True if a shape has a bound in place of a size, or an instruction is about sizes."""
    return any(i.shape.is_dynamic or i.opcode in OF_SIZES for i in module.instructions)
