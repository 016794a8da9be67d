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

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.state_rotation import StateRotation
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.loop_ir.affine import Affine
from xloom.codegen.loop_ir.nest import LoopNest, nest_cost
from xloom.codegen.loop_ir.nodes import indices_of, walk
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.row_footprint import RowFootprint, Rows, accesses, footprint_of, row_of
from xloom.cpu.kernel_modules.choices import Choice
from xloom.hlo.instruction import Instruction
from xloom.passes.loops import Counting, counting_of, in_each_iteration, is_element

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_STEPS = 16
"""Steps of a loop's body at most: of many, few need only rows of one another."""
_MOST_PERIODS = 16
"""More of them save little traffic and few meetings."""
_LEAST_PERIODS = 4
"""So many, if there are rows for them, though what lies between them may then be in the last cache only."""
_SHARE = 8
"""The steps of a round lie at most one such part of the rows apart: threads find room behind each other."""
_BLOCK_COST, _LEAST_COST = 16000, 2000
"""Additions that a step does at a time, where there are rows enough, and at least: calls cost little next to them."""
_WHOLE = 64
"""Rows of a block are so many, if there are more: where they are elements, these are whole vectors."""
_CACHE_SHARE = 1 / 2
"""Of the second cache, what the rows between the first and the last step of a round take."""


class Step(NamedTuple):
    """What is done for some rows at a time, with the arrays of one of the iterations of a period."""

    symbol: str
    """Of the function that does its items; none of a copy."""
    footprint: RowFootprint
    allocations: Sequence[BufferAllocation]
    """Of its pointers, in their order."""
    cost: int
    counter: int | None = None
    """The number of its pointer to the loop's counter, if it reads that."""
    ahead: int = 0
    """How many iterations of a period are counted by then."""


@dataclass(frozen=True)
class SkewedLoop:
    """A loop whose rounds do `periods` times its `steps`; a period is one or a few iterations.

    Rows are counted from the first one that a step makes. Step k of period n lies `offsets[k] + n * shift` rows behind
    the front, which moves on by `block` rows at a time up to `end` for the first period.
    """

    counting: Counting
    steps: Sequence[Step]
    offsets: Sequence[int]
    shift: int
    iterations: int
    """In a period."""
    periods: int
    block: int
    begin: int
    end: int

    @property
    def choice(self) -> Choice:
        """What is told of it."""
        ways = f"up to {self.periods * self.iterations} iterations in one pass over the arrays"
        return Choice(ways, f"each may follow {self.shift} rows behind {self._earlier}, by blocks of {self.block} rows")

    @property
    def _earlier(self) -> str:
        return "the one before" if self.iterations == 1 else f"that {self.iterations} before"

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
    if step is None or not _is_number(step) or int(step.literal.value) <= 0:
        return False
    if not is_element(bound, loop["condition"].parameters[0]):
        return _is_number(bound)
    return _is_kept(loop["body"].root.operands[bound["index"]], loop["body"].parameters[0], bound["index"])


def _is_number(value: Instruction) -> bool:
    return value.opcode == "constant" and not value.literal.elided


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
    steps: list[Step] = []
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
    """The allocations that are written, and the bytes of their rows; None where these are not the same for all.

    But for those in which the steps only note something, each at a place of its own, or in the order of time.
    """
    found: dict[BufferAllocation, int] = {}
    noted = _noted(entry, pieces) - {allocation for turn in turns for allocation in turn}
    for piece in pieces:
        for value in [piece.target] if isinstance(piece, _Copy) else _stored(piece.nest):
            allocation, (_, nbytes) = entry.assignment.of(value), row_of(value)
            if allocation in noted:
                continue
            dims = leaf_shapes(value[0].shape)[value[1]].dims
            if not dims or 0 in dims:  # no rows
                return None
            for turn in turns:
                if found.setdefault(turn.get(allocation, allocation), nbytes) != nbytes:
                    return None
    return found


def _noted(entry: EntryBuilder, pieces: Sequence[_Copy | _Nest]) -> set[BufferAllocation]:
    """Allocations that only one nest writes, at places that it finds out, and of which it reads nothing but these."""
    touched: list[BufferAllocation] = []
    noted: set[BufferAllocation] = set()
    for piece in pieces:
        if isinstance(piece, _Copy):
            touched += [entry.assignment.of(piece.target), entry.assignment.of(piece.source)]
            continue
        places: dict[BufferAllocation, set[Affine]] = {}
        for value, address, _ in accesses(piece.nest):
            places.setdefault(entry.assignment.of(value), set()).add(address)
        touched += places
        for allocation in {entry.assignment.of(value) for value in _stored(piece.nest)}:
            found = places[allocation]
            if len(found) == 1 and _is_found_out(next(iter(found))):
                noted.add(allocation)
    return {allocation for allocation in noted if touched.count(allocation) == 1}


def _is_found_out(address: Affine) -> bool:
    """Whether an address has a number that is computed, and is the same for all elements."""
    numbers = walk([var.node for var, _ in address.terms if var.node is not None])
    return bool(numbers) and all(index.is_constant for n in numbers for index in indices_of(n))


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
) -> Step | None:
    """A piece of iteration `time` of a period, with its arrays where they are then."""

    def allocation_of(value: BufferValue) -> BufferAllocation:
        allocation = entry.assignment.of(value)
        return turn.get(allocation, allocation)

    if isinstance(piece, _Copy):
        target, source = allocation_of(piece.target), allocation_of(piece.source)
        rows, same = target.nbytes // changing[target], Rows(0, 0)
        footprint = RowFootprint(0, rows, rows, {source: same}, {target: same})
        is_known = changing.get(source, changing[target]) == changing[target]
        return Step("", footprint, [target, source], rows) if is_known else None
    numbers, allocations = entry.numbered(piece.nest, allocation_of)
    code = entry.kernel_modules.of_nest(piece.nest, numbers, len(allocations), small=False)
    if len(code.phases) != 1 or code.scratch or code.sizes:
        return None
    (phase,) = code.phases
    footprint = footprint_of(piece.nest, phase, allocation_of, changing)
    if footprint is None:
        return None
    number = allocations.index(counter) if counter in allocations else None
    return Step(phase.symbol, footprint, allocations, nest_cost(piece.nest), number, time + piece.is_counted)


def _arranged(
    entry: EntryBuilder,
    counting: Counting,
    steps: Sequence[Step],
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
    if block > _WHOLE:  # of short rows, that stay in the first cache from one step to the next
        block = max(_WHOLE, min(block, entry.target.caches.first // 2 // max(1, row_bytes)))
        block -= block % _WHOLE
    unit = math.lcm(*(s.footprint.unit for s in steps))
    block = -(-block // unit) * unit
    cached = int(_CACHE_SHARE * entry.target.caches.second) // max(1, row_bytes)
    periods = min(_MOST_PERIODS, most // max(1, shift), max(_LEAST_PERIODS, (cached - block) // max(1, shift)))
    is_small = most * cost < _LEAST_COST
    if periods < 1 or periods * len(steps) < 2 or 4 * block > rows or is_small:
        return None
    return SkewedLoop(counting, steps, offsets, shift, iterations, periods, block, begin, end)
