"""The schedule with the arrays that its thunks read and write, and when each of those is alive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from xloom.codegen.buffer_values import BufferValue, leaf_count
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.order import values_read
from xloom.codegen.schedule.thunks import ScheduledComputation, roots_of, scheduled
from xloom.cpu.entry.function import EntryBuilder
from xloom.cpu.printers.names import array_name, array_shape
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.target import process_target
from xloom.trampoline import Nested, each, run
from xloom.viewer.graph import Strings

_WHOLE_RUN = ("argument", "result", "constant", "code")


def plan(module: Module, strings: Strings) -> dict[str, Any]:
    """The thunks of a prepared module in program order, and its arrays.

    Names of instructions are numbers of strings. Scratch memory of kernels is among the arrays where the program has
    native code, as `has_scratch` says.
    """
    schedule = scheduled(module.entry)
    assignment = assigned(schedule, process_target())
    writer = _Writer(assignment, strings)
    run(writer.computation(schedule, 0))
    writer.thunks.sort(key=lambda thunk: thunk["position"])
    scratch = _scratch_memory(assignment)
    writer.add_scratch(scratch or {})
    return {"thunks": writer.thunks, "arrays": writer.arrays, "has_scratch": scratch is not None}


def _scratch_memory(assignment: BufferAssignment) -> Counter[int] | None:
    """Bytes by the position of a thunk, which are known when its code is written; None without native code."""
    entry = EntryBuilder(assignment, None)
    try:
        entry.emit()
    except LoweringError:
        return None
    found: Counter[int] = Counter()
    for allocation in entry.scratch_memory:
        found[allocation.first] += allocation.nbytes
    return found


class _Writer:
    def __init__(self, assignment: BufferAssignment, strings: Strings) -> None:
        self.assignment = assignment
        self.strings = strings
        self.thunks: list[dict[str, Any]] = []
        self.arrays: list[dict[str, Any]] = []
        numbers: dict[BufferAllocation, int] = {}
        for value, allocation in assignment.allocations.items():
            if allocation.kind == "unused":
                continue
            if allocation not in numbers:
                numbers[allocation] = len(self.arrays)
                self.arrays.append(_array(allocation))
            array = self.arrays[numbers[allocation]]
            array["values"].append(
                [strings(value[0].name), strings(array_name(value)), strings(str(array_shape(value)))]
            )
        self.numbers = numbers

    def add_scratch(self, by_position: Mapping[int, int]) -> None:
        """Adds an array for each thunk that has memory for itself."""
        at = {thunk["position"]: thunk for thunk in self.thunks}
        for position, nbytes in by_position.items():
            thunk = at.get(position)
            if thunk is None or not nbytes:
                continue
            thunk["writes"].append(len(self.arrays))
            names = [[root, self.strings("scratch memory"), self.strings("")] for root in thunk["roots"][:1]]
            array = {"kind": "scratch", "bytes": nbytes, "first": position, "last": position, "values": names}
            self.arrays.append(array)

    def computation(self, schedule: ScheduledComputation, depth: int) -> Nested[None]:
        """Adds the thunks of a computation, and of those that they enter."""
        for thunk in schedule.thunks:
            self.thunks.append(self._thunk(schedule, thunk, depth))
            if isinstance(thunk, Instruction):
                yield each(self.computation(nested, depth + 1) for nested in schedule.nested.get(thunk, ()))

    def _thunk(self, schedule: ScheduledComputation, thunk: Thunk, depth: int) -> dict[str, Any]:
        roots = roots_of(thunk)
        writes = [(root, leaf) for root in roots for leaf in range(leaf_count(root.shape))]
        return {
            "position": self.assignment.positions[thunk],
            "depth": depth,
            "opcode": "loops" if isinstance(thunk, FusionGroup) else thunk.opcode,
            "computation": self.strings(schedule.computation.name),
            "roots": [self.strings(root.name) for root in roots],
            "inlined": self._names(thunk.inlined) if isinstance(thunk, FusionGroup) else [],
            "reads": self._numbers(values_read(thunk)),
            "writes": self._numbers(writes),
        }

    def _names(self, instructions: Iterable[Instruction]) -> list[int]:
        return [self.strings(name) for name in sorted(instruction.name for instruction in instructions)]

    def _numbers(self, values: list[BufferValue]) -> list[int]:
        found = (self.assignment.allocations.get(value) for value in values)
        return list(dict.fromkeys(self.numbers[a] for a in found if a in self.numbers))


def _array(allocation: BufferAllocation) -> dict[str, Any]:
    whole = allocation.kind in _WHOLE_RUN
    return {
        "kind": allocation.kind,
        "bytes": allocation.nbytes,
        "first": 0 if whole else allocation.first,
        "last": -1 if whole else allocation.last,
        "values": [],
    }
