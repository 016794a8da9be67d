"""BufferAssignment: which allocation each buffer value of a program has."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_shapes
from xloom.codegen.buffers.allocation import AllocationTable, BufferAllocation
from xloom.codegen.buffers.state_rotation import StateRotation
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.codegen.thresholds import POOLED
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.target import Target


@dataclass(eq=False)
class BufferAssignment:
    """The allocation of every value of a scheduled program, without offsets in the arena.

    Those are assigned when the code that asks for scratch memory is there. Positions count the thunks of all scheduled
    computations in program order.
    """

    entry: ScheduledComputation
    target: Target
    allocations: AllocationTable = field(default_factory=AllocationTable)
    arguments: list[BufferAllocation] = field(default_factory=list)
    results: list[BufferAllocation] = field(default_factory=list)
    arena: list[BufferAllocation] = field(default_factory=list)
    """Temporary arrays that are not on the stack."""
    stack: list[BufferAllocation] = field(default_factory=list)
    constants: list[Instruction] = field(default_factory=list)
    """Those whose arrays are handed to the program, in the order of their allocations' numbers."""
    input_output_aliases: list[tuple[BufferAllocation, BufferAllocation]] = field(default_factory=list)
    """Results that start as an argument, and those: one memory, if the caller donates the argument."""
    rotations: dict[Instruction, list[StateRotation]] = field(default_factory=dict)
    """Of loops, the memory that state elements hand on in place of their contents."""
    positions: dict[Thunk, int] = field(default_factory=dict)
    ends: dict[ScheduledComputation, int] = field(default_factory=dict)
    """The position after all thunks of a scheduled computation."""

    def element_bytes(self, allocation: BufferAllocation) -> int:
        """What an element of all values in an allocation has; 0 where they differ, or it is parts of others."""
        return self._element_bytes.get(allocation, 0)

    @cached_property
    def _element_bytes(self) -> dict[BufferAllocation, int]:
        found: dict[BufferAllocation, set[int]] = defaultdict(set)
        for (instruction, leaf), allocation in self.allocations.items():
            found[allocation].add(leaf_shapes(instruction.shape)[leaf].dtype.bytes)
        return {allocation: widths.pop() for allocation, widths in found.items() if len(widths) == 1}

    @property
    def constant_arrays(self) -> list[Shape]:
        """The shapes of all arrays of the constants."""
        return [leaf for instruction in self.constants for leaf in leaf_shapes(instruction.shape)]

    def of(self, value: BufferValue) -> BufferAllocation:
        """The allocation of a value, whatever instruction forwards it."""
        return self.allocations[defining_value(*value)]

    @property
    def results_for_temporaries(self) -> list[BufferAllocation]:
        """Results that temporary arrays may lie in before they are written: their memory is aligned, whoever calls."""
        aliased = {result for result, _ in self.input_output_aliases}
        return [result for result in self.results if result.nbytes >= POOLED and result not in aliased]

    @property
    def largest(self) -> str:
        """The largest array in the arena: its name, its shape and its bytes; empty where there is none."""
        made = [(a.nbytes, value) for value, a in self.allocations.items() if a.kind == "arena"]
        if not made:
            return ""
        _, (instruction, leaf) = max(made, key=lambda found: found[0])
        shape = leaf_shapes(instruction.shape)[leaf]
        return f"%{instruction.name} = {shape.to_text(layout=False)}, {shape.nbytes} bytes"


def needs_allocation(schedule: ScheduledComputation, thunk: Thunk, value: BufferValue, number: int) -> bool:
    """True unless a value of thunk `number` is made and read in one loop nest only."""
    return isinstance(thunk, Instruction) or len(thunk.roots) == 1 or schedule.last.get(value, -1) > number
