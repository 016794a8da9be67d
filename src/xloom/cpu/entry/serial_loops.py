"""Loops of steps so small that one thread does them: it had better write what they begin with, too.

What another thread has written is in the caches of its core, from where each line takes longer than from memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xloom.codegen.fusion.producer_consumer import FusionGroup
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
    readers = [reader for root in group.roots for reader in _readers(root)]
    return bool(readers) and all(
        reader.opcode == "while" and all(is_serial(entry, nested) for nested in schedule.nested[reader])
        for reader in readers
    )


def is_serial(entry: EntryBuilder, schedule: ScheduledComputation) -> bool:
    """True where a computation has small loop nests only, and loops of these."""
    for number, thunk in enumerate(schedule.thunks):
        if isinstance(thunk, FusionGroup):
            small = nest_cost(entry.nest_of(schedule, thunk, number)) < 2 * TASK_COST
        elif thunk.opcode == "while":
            small = all(is_serial(entry, nested) for nested in schedule.nested[thunk])
        else:
            small = thunk.opcode in _IN_MEMORY
        if not small:
            return False
    return True


def _readers(value: Instruction) -> list[Instruction]:
    """What uses a value, also as a part of a tuple."""
    return [end for user in value.users for end in (_readers(user) if user.opcode == "tuple" else [user])]
