"""State that loops leave as it was: it stays where it lay before them."""

from __future__ import annotations

from xloom.codegen.buffer_values import BufferValue, defining_value
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.reuse import BufferReuse
from xloom.codegen.buffers.stack_budget import SMALL
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.hlo.instruction import Instruction
from xloom.trampoline import Nested, run


class LoopInvariants:
    """The leaves of loops' states that their bodies only read; asked for loop by loop, in program order."""

    def __init__(self, reuse: BufferReuse):
        self._reuse = reuse
        self._origins: dict[BufferValue, BufferValue] = {}

    def of(self, schedule: ScheduledComputation, loop: Instruction, number: int) -> dict[int, BufferAllocation]:
        """The leaves of the state of thunk `number`, a loop, that can stay where they are, with their allocations."""
        (operand,), body = loop._operands, schedule.nested[loop][0]
        found: dict[int, BufferAllocation] = {}
        for k, value in enumerate(body.root):
            allocation, leaf = self._reuse.allocations.get(defining_value(operand, k)), (loop, k)
            before = run(self._before_loops(body, value))
            unchanged = before == (body.computation.parameters[0], k) and leaf not in self._reuse.reserved_for
            if not unchanged or allocation is None or allocation.nbytes <= SMALL:
                continue
            if self._reuse.stays(schedule, allocation, leaf, number):
                found[k] = allocation
        return found

    def _before_loops(self, schedule: ScheduledComputation, value: BufferValue) -> Nested[BufferValue]:
        """The value that loops of the computation leave as it was, before the first of them; any other one itself."""
        if value in self._origins:
            return self._origins[value]
        instruction, leaf = value
        while instruction in schedule.nested and instruction.opcode == "while":
            body = schedule.nested[instruction][0]
            before = yield self._before_loops(body, body.root[leaf])
            if before != (body.computation.parameters[0], leaf):
                break
            instruction, leaf = defining_value(instruction._operands[0], leaf)
        self._origins[value] = instruction, leaf
        return instruction, leaf
