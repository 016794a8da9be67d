"""How many of a machine's processors a process has, of those that others of the program may run on too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from xloom.distributed.topology import LocalTopology


def processor_share(told: Sequence[LocalTopology], process: int) -> int:
    """A processor counts as the part of it that each of those has that may run on it; at least one in all."""
    mine = told[process]
    users: Counter[int] = Counter()
    for each in told:
        if each.machine == mine.machine:
            users.update(each.processors)
    return max(1, int(sum(Fraction(1, users[processor]) for processor in mine.processors)))
