"""State of loops that moves on: the memory of its elements is exchanged, where their contents would be copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.schedule.thunks import ScheduledComputation

_LEAST_BYTES = 256
"""Less is as quickly copied as found where it lies: such arrays stay at addresses that LLVM knows."""
_LONGEST = 2
"""State elements that follow one another. With the spare one they are a prime number: after any number of moves all
are where they were, or one cycle of copies, from the spare memory on, brings all back. Of four, two may be swapped.
"""
_MOST = 32
"""In a loop, the largest: each is a pointer that LLVM carries through all of the loop's code."""


@dataclass(frozen=True, eq=False)
class StateRotation:
    """Allocations whose memory moves on by one in each iteration: what the first has, the second has in the next.

    `spare` is that of the new value of the first state; its next memory is that of the last state.
    """

    states: tuple[BufferAllocation, ...]
    spare: BufferAllocation

    @property
    def moves(self) -> list[tuple[BufferAllocation, BufferAllocation]]:
        """Each allocation, and that whose memory it has in the next iteration."""
        chain = [self.spare, *self.states]
        return [(after, before) for before, after in zip(chain, chain[1:] + chain[:1], strict=True)]


def rotating_leaves(
    body: ScheduledComputation, states: Sequence[BufferAllocation], in_place: Collection[int]
) -> list[list[int]]:
    """Leaves of a loop's state that are the old ones of one another; of each list, the body makes the first anew.

    Not those that it makes where the old ones lie (`in_place`).
    """
    parameter, roots = body.computation.parameters[0], body.root
    counts, allocations = Counter(roots), Counter(states)
    follower = {value[1]: k for k, value in enumerate(roots) if value[0] is parameter and counts[value] == 1}
    found = []
    for k, value in enumerate(roots):
        is_new = value in body.made and counts[value] == 1 and value[0].opcode != "constant"
        if not is_new or k in in_place or states[k].nbytes < _LEAST_BYTES or allocations[states[k]] > 1:
            continue
        chain = [k]
        while len(chain) < _LONGEST:
            after = follower.get(chain[-1])
            if after is None or after in chain or allocations[states[after]] > 1:
                break
            chain.append(after)
        found.append(chain)
    return sorted(found, key=lambda chain: -states[chain[0]].nbytes)[:_MOST]
