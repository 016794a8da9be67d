"""Which values may have the memory of others: what a thunk writes over, and what is reserved for values to come."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.buffers.allocation import AllocationTable, BufferAllocation
from xloom.codegen.buffers.branch_results import BranchResults, conditionals_inside_out
from xloom.codegen.buffers.in_place import changed_operand, overwritable
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target


class Reservation(NamedTuple):
    """A thunk that will write an allocation: who shares it before must be dead by then."""

    schedule: ScheduledComputation
    number: int
    value: BufferValue


class BufferReuse:
    """What may share the allocations of a program whose thunks are walked in order."""

    def __init__(self, entry: ScheduledComputation, allocations: AllocationTable, target: Target):
        self.allocations, self.target = allocations, target
        self.reserved_for: dict[BufferValue, BufferAllocation] = {}
        """The memory of values to come."""
        self.read_only: set[BufferAllocation] = set()
        self.writable_parameters: set[Instruction] = set()
        """Parameters whose memory the thunks of their computation may write: donated ones, and the state of loops."""
        self.borrowed: set[BufferValue] = set()
        """What loops leave as it was and see where it lay before them: others may read it there."""
        self._reservations: dict[BufferAllocation, list[Reservation]] = defaultdict(list)
        self._branch_results: dict[BufferValue, list[BufferValue]] = {}
        for schedule, conditional in conditionals_inside_out(entry):
            results = BranchResults(schedule, conditional, self)
            for k in range(len(leaf_shapes(conditional.shape))):
                self._branch_results[conditional, k] = results.operands_for(k)

    def reserve(self, schedule: ScheduledComputation, value: BufferValue, allocation: BufferAllocation) -> None:
        """Makes an allocation that of a value to come, and of what it is made from in place, as far as that goes."""
        self.reserved_for[value] = allocation
        number = schedule.made[value]
        self._reservations[allocation].append(Reservation(schedule, number, value))
        changed, may_take = changed_operand(value), self.overwritable(schedule.thunks[number], value)
        for before in may_take if changed is None else [changed]:
            ours = before in schedule.made and before not in self.reserved_for and schedule.last[before] == number
            fits = leaf_shapes(before[0].shape)[before[1]].nbytes == allocation.nbytes
            if ours and fits and before in may_take and self._is_free_from(schedule, allocation, before):
                self.reserve(schedule, before, allocation)
                return

    def overwritten(
        self, schedule: ScheduledComputation, thunk: Thunk, made: BufferValue, number: int
    ) -> BufferAllocation | None:
        """The allocation of a dying value that thunk `number` may write over with `made`."""
        nbytes = leaf_shapes(made[0].shape)[made[1]].nbytes
        for value in self.overwritable(thunk, made):
            allocation = self.allocations.get(value)
            if allocation is None or allocation in self.read_only or allocation.nbytes != nbytes:
                continue
            ours = (value in schedule.made and value not in self.borrowed) or value[0] in self.writable_parameters
            if not ours or not self._dies(schedule, value, allocation, number):
                continue
            last = schedule.last.get(made, number)
            if allocation not in self._reservations or self._is_dead_before_reserved(schedule, allocation, made, last):
                return allocation
        return None

    def initial_state(
        self, schedule: ScheduledComputation, value: BufferValue, number: int, taken: list[BufferAllocation]
    ) -> BufferAllocation | None:
        """The allocation of a value that dies as loop `number` begins with it, unless another state has `taken` it."""
        allocation = self.allocations.get(value)
        if allocation is None or allocation in self.read_only or allocation in taken:
            return None
        ours = value in schedule.made and value not in self.borrowed
        if allocation in self._reservations or not ours or not self._dies(schedule, value, allocation, number):
            return None
        return allocation

    def may_replace(self, schedule: ScheduledComputation, value: BufferValue, old: BufferValue) -> bool:
        """True when a value may be written where an older one lies."""
        made, last = schedule.made[value], schedule.last.get(old, -1)
        if last < made:
            return True
        return last == made and old in self.overwritable(schedule.thunks[made], value)

    def overwritable(self, thunk: Thunk, made: BufferValue) -> list[BufferValue]:
        """The values whose memory an output of a thunk may take while the thunk reads them."""
        found = self._branch_results.get(made)
        return overwritable(thunk, *made, self.target) if found is None else found

    def stays(
        self, schedule: ScheduledComputation, allocation: BufferAllocation, value: BufferValue, number: int
    ) -> bool:
        """True when what an allocation holds at thunk `number` is there as long as it is read as `value`."""
        last = schedule.last.get(value, number)
        return all(
            last < write.number or (last == write.number and self._overwrites(write, value))
            for write in self._reserved_in(schedule, allocation)
            if write.number > number
        )

    def _dies(
        self, schedule: ScheduledComputation, value: BufferValue, allocation: BufferAllocation, number: int
    ) -> bool:
        """True when thunk `number` is the last to read the allocation, and reads it as `value`."""
        if schedule.last.get(value) != number:
            return False
        return all(v == value or schedule.last.get(v, -1) < number for v in self.allocations.live_values(allocation))

    def _is_free_from(self, schedule: ScheduledComputation, allocation: BufferAllocation, value: BufferValue) -> bool:
        """True when no other value of the computation that has the allocation is read after `value` is made."""
        made = schedule.made[value]
        others = [v for v in self.allocations.live_values(allocation) if v in schedule.last]
        may_take = self.overwritable(schedule.thunks[made], value)
        return all(schedule.last[v] < made or (schedule.last[v] == made and v in may_take) for v in others)

    def _is_dead_before_reserved(
        self, schedule: ScheduledComputation, allocation: BufferAllocation, value: BufferValue, last: int
    ) -> bool:
        """True when a value that is read up to thunk `last` may have an allocation until it is written as reserved."""
        reserved = self._reserved_in(schedule, allocation)
        if not reserved:
            return False
        write = min(reserved, key=lambda reservation: reservation.number)
        return last < write.number or (last == write.number and self._overwrites(write, value))

    def _reserved_in(self, schedule: ScheduledComputation, allocation: BufferAllocation) -> list[Reservation]:
        return [
            reservation for reservation in self._reservations.get(allocation, ()) if reservation.schedule is schedule
        ]

    def _overwrites(self, write: Reservation, value: BufferValue) -> bool:
        """True when the thunk that writes a reserved allocation may do so while it reads `value` there."""
        return value in self.overwritable(write.schedule.thunks[write.number], write.value)
