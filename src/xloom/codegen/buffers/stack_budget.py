"""Which arrays live on the stack."""

from __future__ import annotations

SMALL = 256
"""Arrays of so many bytes or fewer live on the stack, where LLVM can keep them in registers."""
STACK_ARRAYS = 4096
"""So many of them at most: a thread's stack ends without warning."""


class StackBudget:
    """How many more arrays may lie on the stack of a program that has `count` there already."""

    def __init__(self, count: int = 0):
        self._count = count

    def admits(self, nbytes: int) -> bool:
        """True of an array that may live on the stack, where it is counted from then on."""
        if nbytes > SMALL or self._count >= STACK_ARRAYS:
            return False
        self._count += 1
        return True
