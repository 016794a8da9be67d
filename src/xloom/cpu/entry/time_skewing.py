"""Several iterations of a loop in one pass over its arrays, where each needs a few rows of what others make.

Iteration t of a stencil needs of iteration t - 1 a row more than it makes. So it can follow some rows behind: a round
of `periods` iterations goes over the arrays once, block of rows by block, and each of its steps does the block that
lies `offset` rows behind the first one's. What is between them stays in the caches. A thread that has a round only has
to stay behind the thread that has the round before it: there is no meeting of all threads after each step.

Elements are computed as ever, by the same code; the order of rows in time is all that changes. What iterations are left
over, the loop itself does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.state_rotation import StateRotation
from xloom.codegen.fusion.producer_consumer import FusionGroup
from xloom.codegen.loop_ir.nest import LoopNest, nest_cost
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.row_footprint import RowFootprint, Rows, footprint_of, row_of
from xloom.cpu.kernel_modules.kernel import TASK
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, allocate, loop
from xloom.llvm.types import I8, I32, I64, POINTER, VOID
from xloom.passes.loops import Counting, counting_of, in_each_iteration, is_element

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_STEPS = 16
"""Steps of a loop's body at most, each of which has code in the round's function."""
_MOST_PERIODS = 16
"""More of them save little traffic and few meetings."""
_SHARE = 8
"""The steps of a round lie at most one such part of the rows apart: threads find room behind each other."""
_BLOCK_COST = 4000
"""Additions that a step does at a time: calls cost little next to them."""
_CACHE_SHARE = 1 / 2
"""Of the second cache, what the rows between the first and the last step of a round take."""
_ROUNDS = 15
"""At once, by as many threads."""
_LINES = 16
"""Words between those that threads watch: two cache lines, as processors fetch them in pairs."""
_NEXT, _PERIODS, _TOTAL, _COUNTED = (_LINES * (_ROUNDS + 1) + k for k in range(4))
"""The words behind those: the next round, periods of one, rounds, and what the counter was before."""
_FEWEST = 8
"""Rounds, for which rather fewer periods are in one: that many threads have work."""
_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (I32(1),))}
"""What a processor is told while it waits."""
_SPINS = 1000
"""How often a thread looks for the round before it until it lets others have the processor."""
_COPIED = 8
"""Bytes that are copied in the time of an addition."""
_POLLED = 1_000_000_000
"""Additions until the program looks whether it is to end."""


class _Step(NamedTuple):
    symbol: str
    """Of the function that does its items."""
    footprint: RowFootprint
    allocations: Sequence[BufferAllocation]
    """Of its pointers, in their order."""
    cost: int
    counter: int | None = None
    """The pointer to the loop's counter, if it reads that."""
    ahead: int = 0
    """How many iterations of a period are counted by then."""


@dataclass(frozen=True)
class SkewedLoop:
    """A loop whose rounds do `periods` times its `steps`; a period is one or a few iterations.

    Rows are counted from the first one that a step makes. Step k of period n lies `offsets[k] + n * shift` rows behind
    the front, which moves on by `block` rows at a time up to `end` for the first period.
    """

    counting: Counting
    steps: Sequence[_Step]
    offsets: Sequence[int]
    shift: int
    iterations: int
    """In a period."""
    periods: int
    block: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        """How many rows a period goes over."""
        return self.end - self.begin

    @property
    def cost(self) -> int:
        """Additions of a round."""
        return self.periods * sum(step.cost for step in self.steps)


def skewed(entry: EntryBuilder, body: ScheduledComputation, instruction: Instruction) -> SkewedLoop | None:
    """How the rounds of a loop are made, if its steps go row by row and follow closely enough."""
    counting = counting_of(instruction)
    if counting is None or not _is_known(instruction, counting):
        return None
    pieces = _pieces(entry, body, instruction, counting)
    if pieces is None or not 0 < len(pieces) <= _STEPS:
        return None
    nests = [piece.nest for piece in pieces if isinstance(piece, _Nest)]
    for nest in nests:
        nest.read_soon = True
    plan = _plan(entry, instruction, counting, pieces)
    for nest in nests:
        nest.read_soon = plan is not None
    return plan


def _is_known(loop: Instruction, counting: Counting) -> bool:
    """Whether the end and the step of a loop are the same in all iterations, and the step is a positive number."""
    bound, step = counting.bound, in_each_iteration(loop, counting.step)
    numbers = [step] if bound.opcode == "get-tuple-element" else [step, bound]
    if any(x is None or x.opcode != "constant" or x.literal.elided for x in numbers):
        return False
    assert step is not None
    (before,) = loop["body"].parameters
    is_kept = bound.opcode == "constant" or _is_kept(loop["body"].root.operands[bound["index"]], before, bound["index"])
    return is_kept and int(step.literal.value) > 0


def _is_kept(value: Instruction, before: Instruction, index: int) -> bool:
    return is_element(value, before) and value["index"] == index


def _plan(
    entry: EntryBuilder, instruction: Instruction, counting: Counting, pieces: Sequence[_Copy | _Nest]
) -> SkewedLoop | None:
    turns = _turns(entry.assignment.rotations[instruction])
    changing = _changing(entry, pieces, turns)
    if changing is None:
        return None
    counter = entry.assignment.allocations[instruction, counting.index]
    steps: list[_Step] = []
    for time, turn in enumerate(turns):
        for piece in pieces:
            step = _step(entry, piece, changing, turn, counter, time)
            if step is None:
                return None
            steps.append(step)
    return _arranged(entry, counting, steps, changing, len(turns))


class _Copy(NamedTuple):
    target: BufferValue
    source: BufferValue


class _Nest(NamedTuple):
    nest: LoopNest
    is_counted: bool
    """Whether it comes after the counter's next value."""


def _pieces(
    entry: EntryBuilder, body: ScheduledComputation, instruction: Instruction, counting: Counting
) -> list[_Copy | _Nest] | None:
    """What an iteration does but for counting, in order; None if there is anything but loop nests and copies."""
    assignment, root = entry.assignment, body.computation.root
    if len(leaf_shapes(instruction.shape)) != len(root.operands):  # tuples in tuples
        return None
    pieces: list[_Copy | _Nest] = []
    is_counted = False
    for number, thunk in enumerate(body.thunks):
        if not isinstance(thunk, FusionGroup):
            if thunk.opcode != "constant":
                return None
        elif thunk.roots == [root.operands[counting.index]]:
            is_counted = True
        else:
            updates = [update for update in thunk.roots if update.opcode == "dynamic-update-slice"]
            pieces += [_Copy((update, 0), (update.operands[0], 0)) for update in updates]
            pieces.append(_Nest(entry.nest_of(body, thunk, number), is_counted))
    exchanged = {state for rotation in assignment.rotations[instruction] for state in rotation.states}
    news = [_Copy((instruction, k), value) for k, value in enumerate(body.root)]
    pieces += [new for new in news if assignment.allocations[new.target] not in exchanged]
    kept = [p for p in pieces if isinstance(p, _Nest) or assignment.of(p.target) is not assignment.of(p.source)]
    last = [p for p in kept if p in news]
    sources = {assignment.of(p.source) for p in last if isinstance(p, _Copy)}
    is_exchange = any(isinstance(p, _Copy) and assignment.allocations[p.target] in sources for p in last)
    return None if is_exchange or not is_counted else kept


def _changing(
    entry: EntryBuilder,
    pieces: Sequence[_Copy | _Nest],
    turns: Sequence[dict[BufferAllocation, BufferAllocation]],
) -> dict[BufferAllocation, int] | None:
    """The allocations that are written, and the bytes of their rows; None where these are not the same for all."""
    found: dict[BufferAllocation, int] = {}
    for piece in pieces:
        for value in [piece.target] if isinstance(piece, _Copy) else _stored(piece.nest):
            if not leaf_shapes(value[0].shape)[value[1]].dims:
                return None
            allocation, (_, nbytes) = entry.assignment.of(value), row_of(value)
            for turn in turns:
                if found.setdefault(turn.get(allocation, allocation), nbytes) != nbytes:
                    return None
    return found


def _stored(nest: LoopNest) -> list[BufferValue]:
    return [s.target for stage in nest.stages for s in stage.stores if s.target not in nest.private]


def _turns(rotations: Sequence[StateRotation]) -> list[dict[BufferAllocation, BufferAllocation]]:
    """Whose first memory each allocation has that moves, in the iterations until all are where they were."""
    first = {allocation: allocation for rotation in rotations for allocation, _ in rotation.moves}
    turns, now = [first], first
    while True:
        now = {after: now[before] for rotation in rotations for after, before in rotation.moves}
        if now == first:
            return turns
        turns.append(now)


def _step(
    entry: EntryBuilder,
    piece: _Copy | _Nest,
    changing: dict[BufferAllocation, int],
    turn: dict[BufferAllocation, BufferAllocation],
    counter: BufferAllocation,
    time: int,
) -> _Step | None:
    """A piece of iteration `time` of a period, with its arrays where they are then."""

    def allocation_of(value: BufferValue) -> BufferAllocation:
        allocation = entry.assignment.of(value)
        return turn.get(allocation, allocation)

    if isinstance(piece, _Copy):
        target, source = allocation_of(piece.target), allocation_of(piece.source)
        rows, same = target.nbytes // changing[target], Rows(0, 0)
        footprint = RowFootprint(0, rows, rows, {source: same}, {target: same})
        is_known = changing.get(source, changing[target]) == changing[target]
        symbol = _copy_function(entry, changing[target])
        return _Step(symbol, footprint, [target, source], target.nbytes // _COPIED) if is_known else None
    numbers, allocations = entry.numbered(piece.nest, allocation_of)
    code = entry.kernel_modules.of_nest(piece.nest, numbers, len(allocations), small=False)
    if len(code.phases) != 1 or code.scratch or code.sizes:
        return None
    (phase,) = code.phases
    footprint = footprint_of(piece.nest, phase, allocation_of, changing)
    if footprint is None:
        return None
    number = allocations.index(counter) if counter in allocations else None
    return _Step(phase.symbol, footprint, allocations, nest_cost(piece.nest), number, time + piece.is_counted)


def _copy_function(entry: EntryBuilder, nbytes: int) -> str:
    """A task that copies rows of so many bytes from its second array to its first."""
    name = f"xloom.copy_rows{nbytes}"
    if name not in entry.module.globals:
        function = ir.Function(entry.module, TASK, name)
        function.linkage = "internal"
        table, begin, end = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        first, size = b.mul(begin, I64(nbytes)), b.mul(b.sub(end, begin), I64(nbytes))
        pointers = [b.load(b.gep(table, [I64(k)], source_etype=POINTER), typ=POINTER) for k in range(2)]
        entry.memcpy(b, *(b.gep(p, [first], inbounds=True, source_etype=I8) for p in pointers), size)
        b.ret_void()
    return name


def _arranged(
    entry: EntryBuilder,
    counting: Counting,
    steps: Sequence[_Step],
    changing: dict[BufferAllocation, int],
    iterations: int,
) -> SkewedLoop | None:
    """The distances between steps, and how much of the arrays a round and a block of it are."""
    offsets: list[int] = []
    for k, step in enumerate(steps):
        lags = [offset + lag for offset, before in zip(offsets, steps[:k], strict=True)
                if (lag := step.footprint.lag(before.footprint)) is not None]  # fmt: skip
        offsets.append(max([*offsets[-1:], *lags, 0]))
    shift = offsets[-1]
    for offset, step in zip(offsets, steps, strict=True):
        for earlier, before in zip(offsets, steps, strict=True):
            lag = step.footprint.lag(before.footprint)
            shift = max(shift, earlier + lag - offset if lag is not None else 0)
    begin = min(s.footprint.first + offset for s, offset in zip(steps, offsets, strict=True))
    end = max(s.footprint.first + s.footprint.count + offset for s, offset in zip(steps, offsets, strict=True))
    rows, row_bytes = end - begin, sum(changing.values())
    most = max(1, rows // _SHARE)
    cost = max(step.cost for step in steps) // rows
    block = max(1, min(_BLOCK_COST // max(cost, 1), most))
    unit = math.lcm(*(s.footprint.unit for s in steps))
    block = -(-block // unit) * unit
    cached = int(_CACHE_SHARE * entry.target.caches.second) // max(1, row_bytes)
    periods = min(_MOST_PERIODS, most // max(1, shift), max(4, (cached - block) // max(1, shift)))
    is_small = most * cost < _BLOCK_COST // 2
    if periods < 1 or periods * len(steps) < 2 or 4 * block > rows or is_small:
        return None
    return SkewedLoop(counting, steps, offsets, shift, iterations, periods, block, begin, end)


def emit_rounds(entry: EntryBuilder, plan: SkewedLoop, body: ScheduledComputation, instruction: Instruction) -> None:
    """Emits as many rounds as there are iterations for, and adds these to the counter."""
    b, assignment = entry.b, entry.assignment
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


def _rows(
    entry: EntryBuilder, b: ir.IRBuilder, plan: SkewedLoop, step: _Step, front: ir.Value, table: ir.Value
) -> None:
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
