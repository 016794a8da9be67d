"""Loops that go over their arrays in rounds: what the entry function does before the loop itself.

It says in tables what a round is, and has the task of `kernel_modules/round_tasks.py` do as many as there are
iterations for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import ThunkCode
from xloom.cpu.entry.time_skewing import SkewedLoop, Step
from xloom.cpu.kernel_modules.kernel import TASK
from xloom.cpu.kernel_modules.round_tasks import DO_ROUNDS, LINE, MOST, WORDS, LoopNumbers, StepNumbers, Word
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import PLAIN, allocate, loop
from xloom.llvm.types import I64, POINTER
from xloom.passes.loops import Counting, in_each_iteration

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_POLLED = 1_000_000_000
"""Additions until the program looks whether it is to end."""


def emit_rounds(entry: EntryBuilder, plan: SkewedLoop, body: ScheduledComputation, instruction: Instruction) -> None:
    """Emits as many rounds as there are iterations for, and adds these to the counter."""
    b, assignment = entry.b, entry.assignment
    entry.program.code[instruction] = ThunkCode("", [], choices=(plan.choice,))
    for allocation in {allocation for step in plan.steps for allocation in step.allocations}:
        allocation.use(assignment.positions[body.thunks[0]])  # other iterations have theirs at the same time
        allocation.use(assignment.ends[body])
    counter = _Counter(entry, plan.counting, instruction)
    words = allocate(b, I64, WORDS)
    words.align = 8 * LINE
    do_rounds, rows_copy = entry.kernel_modules.of_rounds()
    steps = [
        pointer
        for step in plan.steps
        for pointer in (entry.declared(step.symbol or rows_copy, TASK), _table(entry, step, words))
    ]
    context = entry.table([words, _numbers(entry, plan, counter.step), *steps])
    look, more, done = (b.append_basic_block(f"rounds.{n}") for n in ("look", "more", "done"))
    b.branch(look)
    b.position_at_end(look)
    iterations = b.call(entry.declared(do_rounds, DO_ROUNDS), [context, counter.left(b), counter.value(b)])
    b.cbranch(b.icmp_unsigned("==", iterations, I64(0)), done, more)
    b.position_at_end(more)
    counter.add(b, iterations)
    entry.polling.look()
    b.branch(look)
    b.position_at_end(done)


def _table(entry: EntryBuilder, step: Step, words: ir.Value) -> ir.Value:
    """A step's pointers; of one that reads the loop's counter, those of each worker, with a counter of its own."""
    b = entry.b
    pointers = [entry.pointer(allocation) for allocation in step.allocations]
    if not step.symbol:
        to = step.allocations[0]
        nbytes = constant_table(
            entry.module, entry.module.get_unique_name("row"), I64, [to.nbytes // step.footprint.count]
        )
        pointers.append(nbytes)
    if step.counter is None:
        return entry.table(pointers)
    table = allocate(b, POINTER, MOST * len(pointers))
    with loop(b, 0, MOST, name="worker", hints=PLAIN) as worker:
        number = b.add(I64(Word.COUNTERS), b.mul(worker, I64(LINE)))
        pointers[step.counter] = b.gep(words, [number], inbounds=True, source_etype=I64)
        first = b.mul(worker, I64(len(pointers)))
        for k, pointer in enumerate(pointers):
            b.store(pointer, b.gep(table, [b.add(first, I64(k))], inbounds=True, source_etype=POINTER))
    return table


def _numbers(entry: EntryBuilder, plan: SkewedLoop, counter_step: int) -> ir.Value:
    """The table of a loop."""
    most = max(2 * MOST, _POLLED // plan.cost)
    sizes = len(plan.steps), plan.shift, plan.block, plan.rows, plan.iterations
    numbers = [*LoopNumbers(*sizes, counter_step, plan.periods, most)]
    for step, offset in zip(plan.steps, plan.offsets, strict=True):
        rows = step.footprint
        items_of_unit = rows.items // math.gcd(rows.count, rows.items)
        size = 0 if step.counter is None else len(step.allocations)
        numbers += StepNumbers(
            rows.first - plan.begin, rows.count, rows.items, rows.unit, items_of_unit, offset, size, step.ahead
        )
    return constant_table(entry.module, entry.module.get_unique_name("rounds"), I64, numbers)


class _Counter:
    """The counter of a loop in memory."""

    def __init__(self, entry: EntryBuilder, counting: Counting, instruction: Instruction):
        self._dtype = instruction.shape.elements[counting.index].dtype
        self._kind = ir.IntType(self._dtype.bits)
        step = in_each_iteration(instruction, counting.step)
        assert step is not None
        self.step = int(step.literal.value)
        allocations = entry.assignment.allocations
        self._address = entry.pointer(allocations[instruction, counting.index])
        bound = counting.bound
        if bound.opcode == "constant":
            self._bound: ir.Value = self._kind(int(bound.literal.value))
        else:
            self._bound = entry.b.load(entry.pointer(allocations[instruction, bound["index"]]), typ=self._kind)

    def value(self, b: ir.IRBuilder) -> ir.Value:
        """What it is now, as an i64."""
        return self._wide(b, b.load(self._address, typ=self._kind))

    def left(self, b: ir.IRBuilder) -> ir.Value:
        """How many iterations there are at least, as an i64."""
        here, there = self.value(b), self._wide(b, self._bound)
        more = (b.icmp_signed if self._is_signed else b.icmp_unsigned)("<", here, there)
        return b.select(more, b.udiv(b.sub(there, here), I64(self.step)), I64(0))

    def add(self, b: ir.IRBuilder, iterations: ir.Value) -> None:
        """Counts some more."""
        value = b.add(self.value(b), b.mul(iterations, I64(self.step)))
        b.store(value if self._kind.width == 64 else b.trunc(value, self._kind), self._address)

    @property
    def _is_signed(self) -> bool:
        return self._dtype.kind is Kind.SIGNED

    def _wide(self, b: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return value if self._kind.width == 64 else (b.sext if self._is_signed else b.zext)(value, I64)
