"""Code of loops that go over their arrays in rounds: who has a round stays behind who has the one before it.

The task that all threads run takes rounds until there are none left, in their order, so that nobody waits for a round
that nobody has. In memory that they share are the number of the next round and, for each of the latest ones, how far it
is: in rows, and a number more than any round has for each round before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import ThunkCode
from xloom.cpu.entry.time_skewing import SkewedLoop, Step
from xloom.cpu.kernel_modules.kernel import TASK
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, allocate, loop
from xloom.llvm.types import I32, I64, POINTER, VOID
from xloom.passes.loops import Counting, in_each_iteration

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_ROUNDS = 15
"""At once, by as many threads."""
_FEWEST = 8
"""Rounds, for which rather fewer periods are in one: that many threads have work."""
_POLLED = 1_000_000_000
"""Additions until the program looks whether it is to end."""
_SPINS = 1000
"""How often a thread looks for the round before it until it lets others have the processor."""
_LINES = 16
"""Words between those that threads watch: two cache lines, as processors fetch them in pairs."""
_NEXT, _PERIODS, _TOTAL, _COUNTED = (_LINES * (_ROUNDS + 1) + k for k in range(4))
"""The words behind those: the next round, periods of one, rounds, and what the counter was before."""
_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (I32(1),))}
"""What a processor is told while it waits."""


def emit_rounds(entry: EntryBuilder, plan: SkewedLoop, body: ScheduledComputation, instruction: Instruction) -> None:
    """Emits as many rounds as there are iterations for, and adds these to the counter."""
    b, assignment = entry.b, entry.assignment
    entry.program.code[instruction] = ThunkCode("", [], choices=(plan.choice,))
    for allocation in {allocation for step in plan.steps for allocation in step.allocations}:
        allocation.use(assignment.positions[body.thunks[0]])  # other iterations have theirs at the same time
        allocation.use(assignment.ends[body])
    counter = _Counter(entry, plan.counting, instruction)
    words = allocate(b, I64, _LINES * (_ROUNDS + 2))
    words.align = 8 * _LINES
    tables = [entry.table([entry.pointer(a) for a in s.allocations]) for s in plan.steps]
    context = entry.table([words, *tables])
    task = _round_function(entry, plan, counter)
    look, run, done = (b.append_basic_block(f"rounds.{n}") for n in ("look", "run", "done"))
    b.branch(look)
    b.position_at_end(look)
    here = b.udiv(counter.left(b), I64(plan.iterations))
    b.cbranch(b.icmp_unsigned(">=", here, I64(_FEWEST)), run, done)
    b.position_at_end(run)
    periods = intrinsic(b, "umin", b.udiv(here, I64(_FEWEST)), I64(plan.periods))
    most = max(2 * _ROUNDS, _POLLED // plan.cost)
    rounds = intrinsic(b, "umin", b.udiv(here, periods), I64(most))
    for k in range(_ROUNDS + 1):
        b.store(I64(0), _word(b, words, I64(_LINES * k)))
    for k, value in ((_PERIODS, periods), (_TOTAL, rounds), (_COUNTED, counter.value(b))):
        b.store(value, _word(b, words, I64(k)))
    b.store(I64(0), _word(b, words, I64(_NEXT)))
    b.call(entry.parallel_for, [task, context, intrinsic(b, "umin", rounds, I64(_ROUNDS)), I64(1)])
    counter.add(b, b.mul(b.mul(rounds, periods), I64(plan.iterations)))
    entry.polling.look()
    b.branch(look)
    b.position_at_end(done)


class _Counter:
    """The counter of a loop in memory."""

    def __init__(self, entry: EntryBuilder, counting: Counting, instruction: Instruction):
        self._dtype = instruction.shape.elements[counting.index].dtype
        self._kind = ir.IntType(self._dtype.bits)
        step = in_each_iteration(instruction, counting.step)
        assert step is not None
        self._step = int(step.literal.value)
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
        return b.select(more, b.udiv(b.sub(there, here), I64(self._step)), I64(0))

    def add(self, b: ir.IRBuilder, iterations: ir.Value) -> None:
        """Counts some more."""
        self.store_after(b, self.value(b), iterations, self._address)

    def store_after(self, b: ir.IRBuilder, start: ir.Value, iterations: ir.Value, address: ir.Value) -> None:
        """Writes what it is so many iterations after it was `start`."""
        value = b.add(start, b.mul(iterations, I64(self._step)))
        b.store(value if self._kind.width == 64 else b.trunc(value, self._kind), address)

    @property
    def _is_signed(self) -> bool:
        return self._dtype.kind is Kind.SIGNED

    def _wide(self, b: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return value if self._kind.width == 64 else (b.sext if self._is_signed else b.zext)(value, I64)


def _word(b: ir.IRBuilder, words: ir.Value, number: ir.Value) -> ir.Value:
    return b.gep(words, [number], inbounds=True, source_etype=I64)


def _round_function(entry: EntryBuilder, plan: SkewedLoop, counter: _Counter) -> ir.Function:
    """The task that does rounds until there are none left, whichever items it is called for."""
    module = entry.module
    function = ir.Function(module, TASK, module.get_unique_name("xloom.rounds"))
    function.linkage = "internal"
    context, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def pointer(number: int) -> ir.Value:
        return b.load(b.gep(context, [I64(number)], inbounds=True, source_etype=POINTER), typ=POINTER)

    words, *tables = [pointer(k) for k in range(len(plan.steps) + 1)]
    periods, total, counted = (b.load(_word(b, words, I64(k)), typ=I64) for k in (_PERIODS, _TOTAL, _COUNTED))
    count = allocate(b, I64)
    tables = [
        table if step.counter is None else _with_own(b, table, len(step.allocations), step.counter, count)
        for step, table in zip(plan.steps, tables, strict=True)
    ]
    behind = b.mul(periods, I64(plan.shift))
    last = b.add(I64(plan.rows - plan.shift), behind)
    turn = b.add(b.add(last, behind), I64(1))
    with loop(b, begin, end, name="worker", hints=PLAIN):
        take, run, none = (b.append_basic_block(f"round.{n}") for n in ("take", "run", "none"))
        b.branch(take)
        b.position_at_end(take)
        number = b.atomic_rmw("add", _word(b, words, I64(_NEXT)), I64(1), "monotonic")
        b.cbranch(b.icmp_signed("<", number, total), run, none)
        b.position_at_end(run)
        before = b.sub(number, I64(1))
        mine, theirs = (
            _word(b, words, b.mul(b.urem(b.add(x, I64(_ROUNDS + 1)), I64(_ROUNDS + 1)), I64(_LINES)))
            for x in (number, before)
        )
        done, needed = b.mul(number, turn), b.mul(before, turn)
        stop = b.add(last, I64(plan.block))
        with loop(b, I64(plan.block), stop, plan.block, name="front", hints=PLAIN) as front:
            least = b.add(needed, intrinsic(b, "smin", b.add(front, behind), last))
            _await(entry, b, theirs, least)
            with loop(b, 0, periods, name="period", hints=PLAIN) as period:
                at = b.sub(front, b.mul(period, I64(plan.shift)))
                time = b.mul(b.add(b.mul(number, periods), period), I64(plan.iterations))
                for step, offset, table in zip(plan.steps, plan.offsets, tables, strict=True):
                    if step.counter is not None:
                        counter.store_after(b, counted, b.add(time, I64(step.ahead)), count)
                    _rows(entry, b, plan, step, b.sub(at, I64(offset)), table)
            b.atomic_rmw("xchg", mine, b.add(done, intrinsic(b, "smin", front, last)), "release")
        b.branch(take)
        b.position_at_end(none)
    b.ret_void()
    return function


def _with_own(b: ir.IRBuilder, table: ir.Value, size: int, number: int, own: ir.Value) -> ir.Value:
    """A thread's own table of pointers, with one of its own."""
    copy = allocate(b, POINTER, size)
    for k in range(size):
        here, there = (b.gep(t, [I64(k)], inbounds=True, source_etype=POINTER) for t in (copy, table))
        b.store(own if k == number else b.load(there, typ=POINTER), here)
    return copy


def _rows(entry: EntryBuilder, b: ir.IRBuilder, plan: SkewedLoop, step: Step, front: ir.Value, table: ir.Value) -> None:
    """Has a step do the block of its rows that ends at `front`."""
    footprint, ends = step.footprint, []
    after = b.sub(front, I64(footprint.first - plan.begin))
    for at in (b.sub(after, I64(plan.block)), after):
        inside = intrinsic(b, "smin", intrinsic(b, "smax", at, I64(0)), I64(footprint.count))
        if footprint.unit > 1:
            is_end = b.icmp_signed("==", inside, I64(footprint.count))
            inside = b.select(is_end, inside, b.sub(inside, b.urem(inside, I64(footprint.unit))))
        items = b.mul(inside, I64(footprint.items)) if footprint.items > 1 else inside
        ends.append(b.udiv(items, I64(footprint.count)) if footprint.count > 1 else items)
    with b.if_then(b.icmp_signed("<", *ends)):
        b.call(entry.declared(step.symbol, TASK), [table, *ends])


def _await(entry: EntryBuilder, b: ir.IRBuilder, word: ir.Value, least: ir.Value) -> None:
    """Waits until a word is so large."""
    look, again, rest, there = (b.append_basic_block(f"await.{n}") for n in ("look", "again", "rest", "there"))
    before = b.block
    b.branch(look)
    b.position_at_end(look)
    spins = b.phi(I64)
    spins.add_incoming(I64(0), before)
    seen = b.load_atomic(word, "acquire", 8, typ=I64)
    b.cbranch(b.icmp_signed(">=", seen, least), there, again)
    b.position_at_end(again)
    pause = _PAUSES.get(entry.target.triple.partition("-")[0])
    if pause:
        name, arguments = pause
        b.call(entry.declared(name, ir.FunctionType(VOID, [a.type for a in arguments])), arguments)
    more = b.add(spins, I64(1))
    b.cbranch(b.icmp_unsigned("<", more, I64(_SPINS)), look, rest)
    spins.add_incoming(more, again)
    b.position_at_end(rest)
    b.call(entry.declared("sched_yield", ir.FunctionType(I32, [])), [])
    b.branch(look)
    spins.add_incoming(I64(0), rest)
    b.position_at_end(there)
