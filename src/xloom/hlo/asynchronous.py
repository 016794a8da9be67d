"""Asynchronous operations: what begins one, and who may look at what has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction

BEGINS = frozenset(
    {
        "async-start",
        "async-update",
        "copy-start",
        "all-gather-start",
        "all-reduce-start",
        "collective-permute-start",
    }
)
"""Opcodes of an asynchronous operation, in one or several parts, that another instruction ends."""
CONTROL_DEPENDENCY = "control_dep"
"""The target of custom calls of two operands, the first of which is to be computed before the second."""


def is_control_dependency(i: Instruction) -> bool:
    """Whether it only says in which order its operands are computed, as `jax.experimental.control_deps` does."""
    return i.opcode == "custom-call" and i["custom_call_target"] == CONTROL_DEPENDENCY and len(i.operands) == 2


def ends_of(i: Instruction) -> list[Instruction]:
    """The users of what has begun, but for those that only order it."""
    return [user for user in i.users if not is_control_dependency(user)]
