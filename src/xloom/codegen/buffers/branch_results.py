"""Which operands of conditionals their results may lie in: what each branch changes in place, or leaves as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xloom.codegen.buffer_values import BufferValue, defining_values, leaf_shapes
from xloom.codegen.buffers.in_place import changed_operand
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xloom.codegen.buffers.reuse import BufferReuse


def conditionals_inside_out(entry: ScheduledComputation) -> list[tuple[ScheduledComputation, Instruction]]:
    """All conditionals of a program with the computations that they are in, those in branches before those around."""
    found: list[tuple[ScheduledComputation, Instruction]] = []
    schedules = [entry]
    for schedule in schedules:
        for instruction, nested in schedule.nested.items():
            schedules.extend(nested)
            if instruction.opcode == "conditional":
                found.append((schedule, instruction))
    return found[::-1]


class BranchResults:
    """The memory that results of one conditional may have, beside memory of their own."""

    def __init__(self, schedule: ScheduledComputation, conditional: Instruction, reuse: BufferReuse):
        self._reuse = reuse
        self._shapes = leaf_shapes(conditional.shape)
        self._branches = schedule.nested[conditional]
        self._operands = [defining_values(operand) for operand in conditional._operands[1:]]
        """The values that each branch sees."""
        self._parameters: list[dict[BufferValue, list[BufferValue]]] = []
        """Where a branch sees them."""
        for branch, values in zip(self._branches, self._operands, strict=True):
            seen: dict[BufferValue, list[BufferValue]] = {}
            for k, value in enumerate(values):
                seen.setdefault(value, []).append((branch.computation.parameters[0], k))
            self._parameters.append(seen)
        self._roots = [branch.root for branch in self._branches]
        self._counts = [Counter(root) for root in self._roots]

    def operands_for(self, leaf: int) -> list[BufferValue]:
        """The operands that most branches return as they are, or are done with as they write result `leaf`.

        The others copy what they made elsewhere, as these would have to if the result had memory of its own.
        """
        found: dict[BufferValue, None] = {}
        for k, branch in enumerate(self._branches):
            for value in self._origins(branch, self._roots[k][leaf]):
                if value[0] is branch.computation.parameters[0]:
                    found[self._operands[k][value[1]]] = None
        fitting = [v for v in found if leaf_shapes(v[0].shape)[v[1]].nbytes == self._shapes[leaf].nbytes]
        return [v for v in fitting if sum(self._gain(v, k, leaf) for k in range(len(self._branches))) >= 0]

    def _origins(self, branch: ScheduledComputation, value: BufferValue) -> Iterator[BufferValue]:
        """What a value of a branch is made from in place, step by step, or may be written over."""
        while value in branch.made:
            yield from self._reuse.overwritable(branch.thunks[branch.made[value]], value)
            changed = changed_operand(value)
            if changed is None:
                return
            value = changed
        yield value

    def _gain(self, value: BufferValue, k: int, leaf: int) -> int:
        """1 if branch `k` makes a result where it sees `value`, or returns that; -1 if it cannot; 0 if it sees none."""
        seen = self._parameters[k].get(value)
        if not seen:
            return 0
        branch, result = self._branches[k], self._roots[k][leaf]
        made = result in branch.made and self._counts[k][result] == 1
        replaces = made and all(self._reuse.may_replace(branch, result, p) for p in seen)
        return 1 if result in seen or replaces else -1
