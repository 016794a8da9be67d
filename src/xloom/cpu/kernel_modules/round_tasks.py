"""Tasks of loops that go over their arrays in rounds, for any such loop: what they do is in tables.

A round does `periods` times all steps, block of rows by block, each step some rows behind the front. The task that
threads run takes rounds until there are none left, in their order, so that a round that is waited for has a thread.
In memory that they share are the number of the next round and, for each of the latest ones, how far it is: in rows,
and a number more than any round has for each round before it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import TASK
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, loop
from xloom.llvm.memory_copy import copy
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I8, I32, I64, POINTER, VOID

MOST = 15
"""Rounds at once, by as many threads."""
LINE = 16
"""Words between those that threads watch: two cache lines, as processors fetch them in pairs."""
_SPINS = 1000
"""How often a thread looks for the round before it until it lets others have the processor."""
_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (I32(1),))}
"""What a processor is told while it waits."""


FEWEST = 8
"""Rounds, for which rather fewer periods are in one: that many threads have work."""


class Word(IntEnum):
    """Of the shared memory: behind the words of the latest rounds, and before each worker's own counter."""

    NEXT = LINE * (MOST + 1)
    PERIODS = NEXT + 1
    ROUNDS = NEXT + 2
    COUNTED = NEXT + 3
    COUNTERS = NEXT + LINE


WORDS = Word.COUNTERS + LINE * MOST


class LoopNumbers(NamedTuple):
    """What is known of a loop, as its table begins: the rows a period goes over, and how far the next one is behind.

    Integers where the table is written, and values of type i64 where it is read.
    """

    steps: Any
    shift: Any
    block: Any
    rows: Any
    iterations: Any
    counter_step: Any
    most_periods: Any
    most_rounds: Any


class StepNumbers(NamedTuple):
    """A row of the table: the step's rows, counted from the first of all, and the items that these are.

    `unit` rows are `items_of_unit` items. Of a step that reads the loop's counter, each worker has `table_size`
    pointers of its own; of another, all have the same ones, and it is 0.
    """

    first: Any
    count: Any
    items: Any
    unit: Any
    items_of_unit: Any
    offset: Any
    table_size: Any
    ahead: Any


_Numbers = TypeVar("_Numbers", LoopNumbers, StepNumbers)
DO_ROUNDS = ir.FunctionType(I64, [POINTER, I64, I64])
WORDS_OF_CONTEXT = 2
"""The shared memory, and the table; behind them a function and its pointers for each step."""


def rounds_task(module: TargetModule, name: str) -> None:
    """Adds the task, whose items are workers."""
    function = _task(module, name)
    context, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    words, numbers = (_pointer(b, context, I64(k)) for k in range(WORDS_OF_CONTEXT))
    periods, rounds, counted = (_load(b, words, I64(k)) for k in (Word.PERIODS, Word.ROUNDS, Word.COUNTED))
    known = _loaded(b, numbers, LoopNumbers)
    behind = b.mul(periods, known.shift)
    last = b.add(b.sub(known.rows, known.shift), behind)
    turn = b.add(b.add(last, behind), I64(1))
    with loop(b, begin, end, name="worker", hints=PLAIN) as worker:
        take, run, none = (b.append_basic_block(f"round.{n}") for n in ("take", "run", "none"))
        counter = _at(b, words, b.add(I64(Word.COUNTERS), b.mul(worker, I64(LINE))))
        b.branch(take)
        b.position_at_end(take)
        number = b.atomic_rmw("add", _at(b, words, I64(Word.NEXT)), I64(1), "monotonic")
        b.cbranch(b.icmp_signed("<", number, rounds), run, none)
        b.position_at_end(run)
        before = b.sub(number, I64(1))
        mine, theirs = (
            _at(b, words, b.mul(b.urem(b.add(x, I64(MOST + 1)), I64(MOST + 1)), I64(LINE))) for x in (number, before)
        )
        fronts = b.udiv(b.add(last, b.sub(known.block, I64(1))), known.block)
        with loop(b, 0, fronts, name="front", hints=PLAIN) as block:
            front = b.mul(b.add(block, I64(1)), known.block)
            reached = intrinsic(b, "smin", b.add(front, behind), last)
            _await(module, b, theirs, b.add(b.mul(before, turn), reached))
            with loop(b, 0, periods, name="period", hints=PLAIN) as period:
                time = b.mul(b.add(b.mul(number, periods), period), known.iterations)
                at = b.sub(front, b.mul(period, known.shift))
                with loop(b, 0, known.steps, name="step", hints=PLAIN) as step:
                    row = _at(b, numbers, b.add(I64(len(known)), b.mul(step, I64(len(StepNumbers._fields)))))
                    of_step = _loaded(b, row, StepNumbers)
                    now = b.mul(b.add(time, of_step.ahead), known.counter_step)
                    b.store(b.add(counted, now), counter)
                    pair = b.add(I64(WORDS_OF_CONTEXT), b.mul(step, I64(2)))
                    tables = _pointer(b, context, b.add(pair, I64(1)))
                    own = b.gep(tables, [b.mul(worker, of_step.table_size)], source_etype=POINTER)
                    _do_rows(b, known, of_step, at, _place(b, context, pair), own)
            done = b.add(b.mul(number, turn), intrinsic(b, "smin", front, last))
            b.atomic_rmw("xchg", mine, done, "release")
        b.branch(take)
        b.position_at_end(none)
    b.ret_void()


def do_rounds(module: TargetModule, name: str, task: str, parallel_for: str) -> None:
    """Adds `i64 (context, left, counter)`, which does rounds of the iterations that are left, and says of how many."""
    function = ir.Function(module, DO_ROUNDS, name)
    function.attributes.add("nounwind")
    context, left, counter = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    words, numbers = (_pointer(b, context, I64(k)) for k in range(WORDS_OF_CONTEXT))
    known = _loaded(b, numbers, LoopNumbers)
    there = b.udiv(left, known.iterations)
    with b.if_then(b.icmp_unsigned("<", there, I64(FEWEST))):
        b.ret(I64(0))
    periods = intrinsic(b, "umin", b.udiv(there, I64(FEWEST)), known.most_periods)
    rounds = intrinsic(b, "umin", b.udiv(there, periods), known.most_rounds)
    for k in range(MOST + 1):
        b.store(I64(0), _at(b, words, I64(LINE * k)))
    first = {Word.NEXT: I64(0), Word.PERIODS: periods, Word.ROUNDS: rounds, Word.COUNTED: counter}
    for word, value in first.items():
        b.store(value, _at(b, words, I64(word)))
    share = _declared(module, parallel_for, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64]))
    b.call(share, [module.globals[task], context, intrinsic(b, "umin", rounds, I64(MOST)), I64(1)])
    b.ret(b.mul(b.mul(rounds, periods), known.iterations))


def rows_copy_task(module: TargetModule, name: str) -> None:
    """Adds a task that copies rows from its second array to its first; the third has the bytes of one."""
    function = _task(module, name)
    table, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    to, origin, size = (_pointer(b, table, I64(k)) for k in range(3))
    nbytes = b.load(size, typ=I64)
    first, count = b.mul(begin, nbytes), b.mul(b.sub(end, begin), nbytes)
    to, origin = (b.gep(array, [first], inbounds=True, source_etype=I8) for array in (to, origin))
    copy(b, to, origin, count)
    b.ret_void()


def _task(module: TargetModule, name: str) -> ir.Function:
    function = ir.Function(module, TASK, name)
    function.attributes.add("nounwind")
    return function


def _do_rows(
    b: ir.IRBuilder, known: LoopNumbers, step: StepNumbers, front: ir.Value, function: ir.Value, table: ir.Value
) -> None:
    """Has a step do the block of its rows that ends so far behind the front as it has to stay."""
    after = b.sub(b.sub(front, step.offset), step.first)
    before = b.sub(after, known.block)
    # some are of a row or two: most blocks have nothing for them
    with b.if_then(b.and_(b.icmp_signed(">", after, I64(0)), b.icmp_signed("<", before, step.count))):
        ends = []
        for at in (before, after):
            inside = intrinsic(b, "smin", intrinsic(b, "smax", at, I64(0)), step.count)
            whole = b.mul(b.udiv(inside, step.unit), step.items_of_unit)
            ends.append(b.select(b.icmp_signed("==", inside, step.count), step.items, whole))
        with b.if_then(b.icmp_signed("<", *ends)):
            b.call(b.load(function, typ=TASK.as_pointer()), [table, *ends])


def _await(module: TargetModule, b: ir.IRBuilder, word: ir.Value, least: ir.Value) -> None:
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
    pause = _PAUSES.get(module.target.triple.partition("-")[0])
    if pause:
        name, arguments = pause
        b.call(_declared(module, name, ir.FunctionType(VOID, [a.type for a in arguments])), arguments)
    more = b.add(spins, I64(1))
    b.cbranch(b.icmp_unsigned("<", more, I64(_SPINS)), look, rest)
    spins.add_incoming(more, again)
    b.position_at_end(rest)
    b.call(_declared(module, "sched_yield", ir.FunctionType(I32, [])), [])
    b.branch(look)
    spins.add_incoming(I64(0), rest)
    b.position_at_end(there)


def _declared(module: TargetModule, name: str, kind: ir.FunctionType) -> ir.Function:
    return module.globals.get(name) or ir.Function(module, kind, name)


def _at(b: ir.IRBuilder, words: ir.Value, number: ir.Value) -> ir.Value:
    return b.gep(words, [number], inbounds=True, source_etype=I64)


def _load(b: ir.IRBuilder, words: ir.Value, number: ir.Value) -> ir.Value:
    return b.load(_at(b, words, number), typ=I64)


def _loaded(b: ir.IRBuilder, words: ir.Value, kind: type[_Numbers]) -> _Numbers:
    return kind(*(_load(b, words, I64(k)) for k in range(len(kind._fields))))


def _place(b: ir.IRBuilder, pointers: ir.Value, number: ir.Value) -> ir.Value:
    return b.gep(pointers, [number], inbounds=True, source_etype=POINTER)


def _pointer(b: ir.IRBuilder, pointers: ir.Value, number: ir.Value) -> ir.Value:
    return b.load(_place(b, pointers, number), typ=POINTER)
