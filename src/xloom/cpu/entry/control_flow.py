"""Loops and branches of the entry function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_shapes
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.buffer_verifier.events import Event, RunBranch, RunLoop
from xloom.cpu.entry.parallel_loops import emit_parallel_loop, parallel_loop
from xloom.cpu.entry.skewed_rounds import emit_rounds
from xloom.cpu.entry.state_rotation import RotatingPointers
from xloom.cpu.entry.time_skewing import skewed
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.types import I8, I32
from xloom.passes.loops import counted_trips
from xloom.trampoline import Nested

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder


def while_loop(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> Nested[None]:
    """Emits a loop with its state in place: condition, body, and again."""
    b, allocations = entry.b, entry.assignment.allocations
    body, condition = schedule.nested[instruction]
    (operand,) = instruction._operands
    states = [allocations[instruction, k] for k in range(len(leaf_shapes(instruction.shape)))]
    entry.copies([(state, allocations[defining_value(operand, k)]) for k, state in enumerate(states)])
    shared = parallel_loop(entry, body, instruction, states)
    if shared is not None:
        yield emit_parallel_loop(entry, shared, RunLoop(instruction, condition, body, states, [], []))
        return
    rotations = entry.assignment.rotations[instruction]
    exchanged = {state for rotation in rotations for state in rotation.states}
    plan = skewed(entry, body, instruction)
    if plan is not None:
        emit_rounds(entry, plan, body, instruction)
    rotating = [RotatingPointers(entry, rotation) for rotation in rotations]
    head, inside, done = (entry.function.append_basic_block(f"while.{n}") for n in ("head", "body", "done"))
    with entry.polling.loop(head, counted_trips(instruction)):
        b.position_at_end(head)
        with entry.recorded() as test:
            yield entry.emit_schedule(condition)
        b.cbranch(_predicate(entry, condition.root[0]), inside, done)
        b.position_at_end(inside)
        with entry.recorded() as thunks, entry.timed_pass(inside):
            yield entry.emit_schedule(body, repeated=True)
            news = zip(states, body.root, strict=True)
            entry.copies([(state, allocations[value]) for state, value in news if state not in exchanged])
            for pointers in rotating:
                pointers.turn()
        entry.events.append(RunLoop(instruction, condition, body, states, test, thunks))
    b.position_at_end(done)
    for pointers in reversed(rotating):
        pointers.end()


def conditional(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> Nested[None]:
    """Emits a branch for each computation; an index out of range means the last."""
    b, allocations = entry.b, entry.assignment.allocations
    chooser = instruction._operands[0]
    branches = schedule.nested[instruction]
    if chooser.shape.dtype.kind is Kind.PRED:
        number = b.select(_predicate(entry, defining_value(chooser)), I32(0), I32(1))
    else:
        number = b.load(entry.of((chooser, 0)), typ=I32)
    done = entry.function.append_basic_block("branch.done")
    blocks = [entry.function.append_basic_block(f"branch.{k}") for k in range(len(branches))]
    switch = b.switch(number, blocks[-1])
    results = [allocations[instruction, leaf] for leaf in range(len(leaf_shapes(instruction.shape)))]
    all_steps: list[list[Event]] = []
    for k, (nested, target_block) in enumerate(zip(branches, blocks, strict=True)):
        switch.add_case(I32(k), target_block)
        b.position_at_end(target_block)
        with entry.recorded() as thunks:
            yield entry.emit_schedule(nested)
            entry.copies([(result, allocations[value]) for result, value in zip(results, nested.root, strict=True)])
        all_steps.append(thunks)
        b.branch(done)
    entry.events.append(RunBranch(instruction, branches, results, all_steps))
    b.position_at_end(done)


def _predicate(entry: EntryBuilder, source: BufferValue) -> ir.Value:
    """A scalar pred in memory, as an i1."""
    return entry.b.icmp_unsigned("!=", entry.b.load(entry.of(source), typ=I8), I8(0))
