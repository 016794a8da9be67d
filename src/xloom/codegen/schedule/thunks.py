"""The program as sequences of thunks, one for each computation that control flow enters."""

from __future__ import annotations

from dataclasses import dataclass, field

from xloom.codegen.buffer_values import BufferValue, defining_values, leaf_count
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk, thunks_of
from xloom.codegen.fusion.producer_consumer import producer_consumer_fusion
from xloom.codegen.ops import OP_ROWS, Role
from xloom.codegen.schedule.order import values_read
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.trampoline import Nested, each, run

LAST = 1 << 60
"""A position after every thunk."""


@dataclass(eq=False)
class ScheduledComputation:
    """A computation's thunks, and at which of them each array is made and read for the last time."""

    computation: Computation
    thunks: list[Thunk]
    made: dict[BufferValue, int] = field(default_factory=dict)
    last: dict[BufferValue, int] = field(default_factory=dict)
    stored: set[Instruction] = field(default_factory=set)
    nested: dict[Instruction, list[ScheduledComputation]] = field(default_factory=dict)
    """The scheduled computations of a thunk that is control flow, in the table's order of its computations."""

    @property
    def root(self) -> list[BufferValue]:
        """The defining value of each leaf of the result."""
        return defining_values(self.computation.root)


def scheduled(computation: Computation) -> ScheduledComputation:
    """Schedules a computation and those that its thunks enter."""
    return run(_schedule_of(computation))


def _schedule_of(computation: Computation) -> Nested[ScheduledComputation]:
    fusion = producer_consumer_fusion(computation)
    thunks = thunks_of(fusion)
    schedule = ScheduledComputation(computation, thunks, stored=fusion.stored)
    for position, thunk in enumerate(thunks):
        for instruction in roots_of(thunk):
            for leaf in range(leaf_count(instruction.shape)):
                schedule.made[instruction, leaf] = position
        for read in values_read(thunk):
            schedule.last[read] = position
        if isinstance(thunk, Instruction) and OP_ROWS[thunk.opcode].role is Role.CONTROL:
            schedule.nested[thunk] = yield each(map(_schedule_of, thunk.called_computations))
    for value in schedule.root:
        schedule.last[value] = LAST
    return schedule


def roots_of(thunk: Thunk) -> list[Instruction]:
    """The instructions that a thunk makes."""
    return thunk.roots if isinstance(thunk, FusionGroup) else [thunk]
