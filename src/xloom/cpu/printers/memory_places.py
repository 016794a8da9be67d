"""Why an array lies where it does: `xloom opt --explain memory`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xloom.codegen.buffer_values import BufferValue, defining_values, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.buffers.in_place import overwritable
from xloom.codegen.buffers.reuse import Refusals
from xloom.codegen.buffers.stack_budget import SMALL
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.order import values_read
from xloom.codegen.schedule.thunks import ScheduledComputation, roots_of, scheduled
from xloom.cpu.lower import lower
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.named import checked_names
from xloom.cpu.printers.names import array_name, array_shape, bytes_text, place_text
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target

_SHOWN = 5
"""Arrays that are alive beside another, the largest ones."""


def memory_places_text(module: Module, names: Sequence[str] = (), target: Target | None = None) -> str:
    """Of each array, or of those of instructions called `names`: its memory, since when and until when, and why there.

    Raises XloomError for a name that the prepared module has not, LoweringError for what has no native code.
    """
    target = target or process_target()
    ready = prepared(module, target=target)
    wanted = checked_names(ready, names)
    places = _Places(scheduled(ready.entry), target)
    found = [i for i in ready.instructions if not wanted or i.name in wanted]
    return "".join(f"{line}\n" for instruction in found for line in places.lines(instruction, is_asked=bool(wanted)))


class _Places:
    def __init__(self, entry: ScheduledComputation, target: Target):
        self.refusals: Refusals = {}
        self.assignment = assigned(entry, target, self.refusals)
        lower(self.assignment)  # which gives the arena its offsets
        self.sharing: dict[BufferAllocation, list[BufferValue]] = {}
        for value, allocation in self.assignment.allocations.items():
            self.sharing.setdefault(allocation, []).append(value)
        self.schedules = _with_nested(entry)
        self.thunks: dict[BufferValue, tuple[ScheduledComputation, Thunk]] = {
            value: (schedule, schedule.thunks[number])
            for schedule in self.schedules
            for value, number in schedule.made.items()
        }
        self.at = {position: thunk for thunk, position in self.assignment.positions.items()}

    def lines(self, instruction: Instruction, *, is_asked: bool) -> Iterator[str]:
        """Of the arrays that an instruction's value consists of; only those that it makes itself unless it is asked."""
        for value in defining_values(instruction):
            if value[0] is not instruction and not is_asked:
                continue
            if value[0] is not instruction:
                yield f"%{instruction.name}: its memory is that of {array_name(value)}"
            allocation = self.assignment.allocations.get(value)
            if allocation is None:
                if is_asked:
                    yield f"{array_name(value)}: no array in memory, see --explain fusion:{value[0].name}"
                continue
            yield from self._array(value, allocation)

    def _array(self, value: BufferValue, allocation: BufferAllocation) -> Iterator[str]:
        place = place_text(allocation, self.assignment)
        nbytes = leaf_shapes(value[0].shape)[value[1]].nbytes
        yield f"{array_name(value)} {array_shape(value)}, {bytes_text(nbytes)}: {place}"
        yield f"  {self._why(value, allocation)}"
        if allocation.kind in ("arena", "stack", "part"):
            yield f"  in use from {self._thunk(allocation.first)} to {self._thunk(allocation.last)}"
        others = [v for v in self.sharing[allocation] if v != value]
        if others:
            yield f"  one after another in the same memory: {_named(others)}"
        if value in self.thunks and allocation.kind in ("arena", "result"):
            yield from self._not_in_place(value)
        if allocation.kind == "arena":
            yield from self._beside(allocation)

    def _why(self, value: BufferValue, allocation: BufferAllocation) -> str:
        match allocation.kind:
            case "argument":
                return "an argument, which the caller does not give away"
            case "constant":
                return f"a constant of more than {SMALL} bytes, which the program is handed"
            case "code":
                return f"a constant of at most {SMALL} bytes, which is a part of the code"
            case "stack":
                return f"a temporary array of at most {SMALL} bytes"
            case "unused":
                return "nothing reads it"
            case "part":
                assert allocation.gathered is not None
                return f"made where it belongs in %{allocation.gathered[1].name}, which gathers it"
            case "result":
                if value[0].opcode == "parameter":
                    return f"an argument that the caller gives away, in whose memory result {allocation.number} is made"
                is_root = value in self.assignment.entry.root
                return f"{'it is' if is_root else 'made in place of what becomes'} result {allocation.number}"
        if allocation.colocated_with is not None:
            number = allocation.colocated_with.number
            return f"a temporary array, which fits the memory of result {number} before that is written"
        return f"a temporary array of more than {SMALL} bytes, which is no result and is not made in place of one"

    def _not_in_place(self, value: BufferValue) -> Iterator[str]:
        """Why it was not made where what it is made of lies."""
        schedule, thunk = self.thunks[value]
        refused = self.refusals.get(value, {})
        for other, why in refused.items():
            yield f"  not in place of {array_name(other)}: {why}"
        nbytes = leaf_shapes(value[0].shape)[value[1]].nbytes
        may_take = overwritable(thunk, *value, self.assignment.target)
        for read in values_read(thunk):
            allocation = self.assignment.allocations.get(read)
            if read in refused or read in may_take or allocation is None or allocation.nbytes != nbytes:
                continue
            if allocation is not self.assignment.allocations[value] and schedule.last.get(read) == schedule.made[value]:
                yield f"  not in place of {array_name(read)}: it is read out of the order in which this is written"

    def _beside(self, allocation: BufferAllocation) -> Iterator[str]:
        """What lies in the arena at the same time."""
        home = allocation.colocated_with
        beside = [
            other
            for other in self.assignment.arena
            if other is not allocation
            and other.colocated_with is home
            and other.first <= allocation.last
            and allocation.first <= other.last
        ]
        beside.sort(key=lambda other: -other.nbytes)
        for other in beside[:_SHOWN]:
            yield (
                f"  beside {_named(self.sharing.get(other, []))}, {bytes_text(other.nbytes)}, "
                f"in use from {self._thunk(other.first)} to {self._thunk(other.last)}"
            )
        if len(beside) > _SHOWN:
            rest = sum(other.nbytes for other in beside[_SHOWN:])
            yield f"  beside {len(beside) - _SHOWN} more, {bytes_text(rest)}"

    def _thunk(self, position: int) -> str:
        thunk = self.at.get(position)
        if thunk is None:
            return "the end"
        roots = roots_of(thunk)
        more = f", {len(roots) - 1} more" if len(roots) > 1 else ""
        return f"thunk {position} (%{roots[0].name}{more})"


def _with_nested(entry: ScheduledComputation) -> list[ScheduledComputation]:
    found, stack = [], [entry]
    while stack:
        schedule = stack.pop()
        found.append(schedule)
        stack += [nested for each in schedule.nested.values() for nested in each]
    return found


def _named(values: Sequence[BufferValue]) -> str:
    names = [array_name(v) for v in values[:_SHOWN]]
    return ", ".join([*names, *([f"{len(values) - _SHOWN} more"] if len(values) > _SHOWN else [])]) or "scratch memory"
