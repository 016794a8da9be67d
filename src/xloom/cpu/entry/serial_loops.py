"""Loops of steps so small that one thread does them: it had better write what they begin with, too.

What another thread has written is in the caches of its core, from where each line takes longer than from memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.loop_ir.nest import loaded_values, nest_cost
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.loops.phases import TASK_COST
from xloom.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_MOST = 4
"""Times the second cache, what such an array takes at most: of a larger one, little is still there."""
_IN_MEMORY = frozenset({"constant", "after-all", "parameter", "tuple", "get-tuple-element"})
"""Thunks that do nothing."""


def begins_serial_loops(entry: EntryBuilder, schedule: ScheduledComputation, group: FusionGroup, number: int) -> bool:
    """True where thunk `number` reads no array, and all that reads its own is loops that one thread does."""
    nbytes = sum(root.shape.nbytes for root in group.roots)
    if nbytes > _MOST * entry.target.caches.second or loaded_values(entry.nest_of(schedule, group, number)):
        return False
    readers = _readers(group.roots)
    return (
        bool(readers)
        and all(reader.opcode == "while" for reader in readers)
        and _are_serial(entry, [nested for reader in readers for nested in schedule.nested[reader]])
    )


def _are_serial(entry: EntryBuilder, schedules: list[ScheduledComputation]) -> bool:
    """True where computations have small loop nests only, and loops of these."""
    left = list(schedules)
    while left:
        schedule = left.pop()
        for number, thunk in enumerate(schedule.thunks):
            if isinstance(thunk, FusionGroup):
                if nest_cost(entry.nest_of(schedule, thunk, number)) >= 2 * TASK_COST:
                    return False
            elif thunk.opcode == "while":
                left += schedule.nested[thunk]
            elif thunk.opcode not in _IN_MEMORY:
                return False
    return True


def _readers(values: Sequence[Instruction]) -> list[Instruction]:
    """What uses values, also as parts of tuples."""
    found: list[Instruction] = []
    left = list(values)
    while left:
        for user in left.pop().users:
            (left if user.opcode == "tuple" else found).append(user)
    return found
