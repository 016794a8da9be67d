"""Reductions over the lanes of a warp, by shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.llvm.types import Value

Combine = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
"""Makes one state of two, associative and commuting."""


def in_warp(kernel: KernelBuilder, state: Sequence[Value], combine: Combine, width: int = WARP) -> Sequence[Value]:
    """What `combine` makes of the states of each group of `width` lanes, which its first one gets.

    All threads of the warp come here.
    """
    offset = width // 2
    while offset:
        state = combine(state, [kernel.shuffled_down(value, offset, width) for value in state])
        offset //= 2
    return state


def sums_in_warp(kernel: KernelBuilder, numbers: Sequence[Value]) -> Sequence[Value]:
    """The sums of some numbers of each lane, which the first one gets."""
    return in_warp(kernel, numbers, lambda x, y: [*map(kernel.b.fadd, x, y)])
