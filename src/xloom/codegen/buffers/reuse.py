"""Which values may have the memory of others: what a thunk writes over, and what is reserved for values to come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.buffers.allocation import AllocationTable, BufferAllocation
from xloom.codegen.buffers.branch_results import BranchResults, conditionals_inside_out
from xloom.codegen.buffers.gathered_parts import gathered_next, own_part
from xloom.codegen.buffers.in_place import changed_operand, overwritable
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.thunks import LAST, ScheduledComputation, roots_of
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target

_READ_ONLY = {
    "argument": "an argument that the caller does not give away",
    "constant": "a constant",
    "code": "a constant in the code",
}


class Reservation(NamedTuple):
    """A thunk that will write an allocation: who shares it before must be dead by then."""

    schedule: ScheduledComputation
    number: int
    value: BufferValue
    allocation: BufferAllocation


Refusals = dict[BufferValue, dict[BufferValue, str]]
"""Of an array that got memory of its own: the arrays in whose place it might have been made, and why it was not."""


class BufferReuse:
    """What may share the allocations of a program whose thunks are walked in order."""

    def __init__(
        self,
        entry: ScheduledComputation,
        allocations: AllocationTable,
        target: Target,
        refusals: Refusals | None = None,
    ):
        """`refusals` gets why arrays are not made in the place of others."""
        self.allocations, self.target = allocations, target
        self._refusals = refusals
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
        self._reservations[allocation.home].append(Reservation(schedule, number, value, allocation))
        self._reserve_part(schedule, value, allocation)
        changed, may_take = changed_operand(value), self.overwritable(schedule.thunks[number], value)
        for before in may_take if changed is None else [changed]:
            ours = before in schedule.made and before not in self.reserved_for and schedule.last[before] == number
            fits = leaf_shapes(before[0].shape)[before[1]].nbytes == allocation.nbytes
            if ours and fits and before in may_take and self._is_free_from(schedule, allocation, before):
                self.reserve(schedule, before, allocation)
                return

    def _reserve_part(
        self, schedule: ScheduledComputation, gathered: BufferValue, allocation: BufferAllocation
    ) -> None:
        """Has what a device gives to an all-gather made in its place of the result, as far as that goes."""
        value = self._own_part(schedule, gathered)
        if value is None:
            return
        nbytes = leaf_shapes(value[0].shape)[value[1]].nbytes
        part = BufferAllocation("part", nbytes, gathered=(allocation, gathered[0]))
        if self._is_free_from(schedule, part, value):
            self.reserve(schedule, value, part)

    def _own_part(self, schedule: ScheduledComputation, gathered: BufferValue) -> BufferValue | None:
        part = None if self.target.is_gpu else own_part(gathered)
        if part is None or part not in schedule.made or part in self.reserved_for or part[0].opcode == "constant":
            return None
        return part if schedule.last[part] == schedule.made[gathered] else None

    def keeps_part_apart(self, schedule: ScheduledComputation, gathered: BufferValue, old: BufferValue) -> bool:
        """True when what a device gives to an all-gather has no place in the result if this lies where `old` does."""
        part = self._own_part(schedule, gathered)
        return part is not None and schedule.last.get(old, -1) >= schedule.made[part]

    def reserve_gathered(
        self, schedule: ScheduledComputation, part: BufferValue, new: Callable[[int], BufferAllocation]
    ) -> None:
        """Reserves memory that `new` makes for what is gathered from a value next, and so for the value."""
        gathered = gathered_next(schedule, part)
        if gathered is not None and gathered not in self.reserved_for and self._own_part(schedule, gathered) == part:
            self.reserve(schedule, gathered, new(leaf_shapes(gathered[0].shape)[gathered[1]].nbytes))

    def overwritten(
        self, schedule: ScheduledComputation, thunk: Thunk, made: BufferValue, number: int
    ) -> BufferAllocation | None:
        """The allocation of a dying value that thunk `number` may write over with `made`."""
        for value in self.overwritable(thunk, made):
            refusal = self._why_not_over(schedule, value, made, number)
            if refusal is None:
                return self.allocations[value]
            if self._refusals is not None:
                self._refusals.setdefault(made, {})[value] = refusal()
        return None

    def _why_not_over(
        self, schedule: ScheduledComputation, value: BufferValue, made: BufferValue, number: int
    ) -> Callable[[], str] | None:
        """What says why thunk `number` may not write `made` over a value that it may overwrite; None where it may."""
        allocation = self.allocations.get(value)
        if allocation is None:
            return lambda: "it has no memory"
        if allocation in self.read_only:
            return lambda: f"it is {_READ_ONLY.get(allocation.kind, 'not to be changed')}"
        nbytes = leaf_shapes(made[0].shape)[made[1]].nbytes
        if allocation.nbytes != nbytes:
            return lambda: f"it has {allocation.nbytes} bytes, and not {nbytes}"
        if not ((value in schedule.made and value not in self.borrowed) or value[0] in self.writable_parameters):
            return lambda: "it is made outside of the loop or branch, and read there again"
        if not self._dies(schedule, value, allocation, number):
            return lambda: self._why_alive(schedule, value, allocation, number)
        last = schedule.last.get(made, number)
        reserved = self._is_reserved(schedule, allocation, number)
        if reserved and not self._is_dead_before_reserved(schedule, allocation, made, last):
            return lambda: f"its memory is reserved for %{self._reservations[allocation.home][0].value[0].name}"
        return None

    def _why_alive(
        self, schedule: ScheduledComputation, value: BufferValue, allocation: BufferAllocation, number: int
    ) -> str:
        """Which thunk reads an allocation after thunk `number`."""
        live = [v for v in self.allocations.live_values(allocation) if schedule.last.get(v, -1) >= number]
        name, last = max(((v[0].name, schedule.last[v]) for v in live), key=lambda each: each[1], default=("", LAST))
        if value not in schedule.last or last >= len(schedule.thunks):
            return "it is read after this computation"
        reader = ", ".join(f"%{root.name}" for root in roots_of(schedule.thunks[last]))
        same = "" if name == value[0].name else f" as %{name}"
        return f"it is read again{same}, by {reader}"

    def initial_state(
        self, schedule: ScheduledComputation, value: BufferValue, number: int, taken: list[BufferAllocation]
    ) -> BufferAllocation | None:
        """The allocation of a value that dies as loop `number` begins with it, unless another state has `taken` it."""
        allocation = self.allocations.get(value)
        if allocation is None or allocation in self.read_only or allocation in taken:
            return None
        ours = value in schedule.made and value not in self.borrowed
        if self._is_reserved(schedule, allocation, number) or not ours:
            return None
        return allocation if self._dies(schedule, value, allocation, number) else None

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
            last < write.number or (last == write.number and self._overwrites(write, value, allocation))
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
        may_take = [v for v in may_take if self.allocations.get(v) is allocation]
        return all(schedule.last[v] < made or (schedule.last[v] == made and v in may_take) for v in others)

    def _is_reserved(self, schedule: ScheduledComputation, allocation: BufferAllocation, number: int) -> bool:
        """True when an allocation is reserved for what thunk `number` or a later one makes, or another computation."""
        reserved = self._reservations.get(allocation.home, ())
        return any(each.schedule is not schedule or each.number >= number for each in reserved)

    def _is_dead_before_reserved(
        self, schedule: ScheduledComputation, allocation: BufferAllocation, value: BufferValue, last: int
    ) -> bool:
        """True when a value that is read up to thunk `last` may have an allocation until it is written as reserved."""
        reserved = self._reserved_in(schedule, allocation)
        if not reserved:
            return False
        write = min(reserved, key=lambda reservation: reservation.number)
        return last < write.number or (last == write.number and self._overwrites(write, value, allocation))

    def _reserved_in(self, schedule: ScheduledComputation, allocation: BufferAllocation) -> list[Reservation]:
        return [each for each in self._reservations.get(allocation.home, ()) if each.schedule is schedule]

    def _overwrites(self, write: Reservation, value: BufferValue, allocation: BufferAllocation) -> bool:
        """True when the thunk that writes a reserved allocation may do so while it reads `value` in `allocation`."""
        may_take = self.overwritable(write.schedule.thunks[write.number], write.value)
        return write.allocation is allocation and value in may_take
