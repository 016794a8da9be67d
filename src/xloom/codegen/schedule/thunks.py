"""The program as blocks of steps, one block per computation that control flow enters."""

from __future__ import annotations

from dataclasses import dataclass, field

from xloom.codegen.buffer_values import BufferValue, defining_values, leaf_count
from xloom.codegen.fusion.multi_output import Thunk, steps_of
from xloom.codegen.fusion.producer_consumer import FusionGroup, producer_consumer_fusion
from xloom.codegen.kernel_facts import unread_operands
from xloom.codegen.ops import OP_ROWS, Role
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.trampoline import Nested, each, run

LAST = 1 << 60
"""A position after every step."""


@dataclass(eq=False)
class ScheduledComputation:
    """A computation's steps, and at which of them each array is made and read for the last time."""

    computation: Computation
    steps: list[Thunk]
    made: dict[BufferValue, int] = field(default_factory=dict)
    last: dict[BufferValue, int] = field(default_factory=dict)
    stored: set[Instruction] = field(default_factory=set)
    nested: dict[Instruction, list[ScheduledComputation]] = field(default_factory=dict)
    """The blocks of a step that is control flow, in the table's order of its computations."""

    @property
    def root(self) -> list[BufferValue]:
        """The defining value of each leaf of the result."""
        return defining_values(self.computation.root)


def scheduled(computation: Computation) -> ScheduledComputation:
    """The plan of a computation and of those that its steps enter."""
    return run(_block_of(computation))


def _block_of(computation: Computation) -> Nested[ScheduledComputation]:
    fusion = producer_consumer_fusion(computation)
    steps = steps_of(fusion)
    block = ScheduledComputation(computation, steps, stored=fusion.stored)
    for position, step in enumerate(steps):
        for instruction in roots_of(step):
            for leaf in range(leaf_count(instruction.shape)):
                block.made[instruction, leaf] = position
        for read in _reads(step, fusion.stored):
            block.last[read] = position
        if isinstance(step, Instruction) and OP_ROWS[step.opcode].role is Role.CONTROL:
            block.nested[step] = yield each(map(_block_of, step.called_computations))
    for source in block.root:
        block.last[source] = LAST
    return block


def roots_of(step: Thunk) -> list[Instruction]:
    """The instructions that a step makes."""
    return step.roots if isinstance(step, FusionGroup) else [step]


def _reads(step: Thunk, stored: set[Instruction]) -> list[BufferValue]:
    if isinstance(step, Instruction):
        skipped = unread_operands(step)
        return [
            source
            for k, operand in enumerate(step._operands)
            if k not in skipped
            for source in defining_values(operand)
        ]
    found: dict[BufferValue, None] = {}
    for instruction in (*step.roots, *step.inlined):
        for operand in instruction._operands:
            if operand not in step.inlined:
                found.update(dict.fromkeys(defining_values(operand)))
    return list(found)
