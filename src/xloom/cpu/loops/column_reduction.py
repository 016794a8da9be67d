"""Reductions whose neighbours in memory belong to different results: an iteration adds a piece of a row to all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, State, accumulators, are_sums, representation_of
from xloom.codegen.loop_ir.affine import Var, linear, variable
from xloom.codegen.loop_ir.masked_range import masked_range
from xloom.codegen.loop_ir.nest import LoopBody, arranged, ordered
from xloom.codegen.loop_ir.nodes import Reduction, walk
from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.phases import TASK_COST, Phases
from xloom.cpu.loops.short_rows import BLOCK, LONGEST, TransposedRows, loads_of_short_rows
from xloom.cpu.loops.unmasked_part import outside, take_outside, unmasked_part
from xloom.llvm import element_access, types
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import VECTOR_ONLY, loop
from xloom.llvm.symbolic_dimension import least
from xloom.llvm.types import I64, i64

FEW = 64
"""Results that registers hold while all rows are taken, if their loop is unrolled."""
RUN = 32
"""Rows whose sum is made before it is added to that of the rows before."""
TASKS = 16
"""Into how many pieces the rows are cut where there are fewer blocks; a constant, as it decides the order of sums."""
ROWS = 8
"""Rows taken in one step: each result is then loaded and stored less often. What is left of many is taken singly."""
STEPS = 128
"""More steps than these are taken in runs, where numbers are added up: their error grows with the steps."""
STEP_NODES = 96
"""Nodes that a step has at most, if it is of several rows."""

States = Mapping[int, Sequence[Accumulator]]
"""The accumulators of each reduction, by its identity."""
LaneStates = Mapping[int, Sequence[State]]
"""Those of one lane."""
Lanes = Callable[[], AbstractContextManager[ir.Value]]
"""A loop over the results of a block: each time, the same ones."""
Values = Callable[[Reduction], Sequence[types.Value]]
"""What the accumulators of a reduction start from."""


class ColumnReduction:
    """Emits the reductions of one loop body, in lanes of neighbouring results."""

    def __init__(self, phases: Phases, stage: LoopBody, reductions: Sequence[Reduction]):
        self.phases = phases
        self.stage = stage
        self.reductions = reductions
        *self.others, self.best = ordered(LoopBody([*stage.vars, *reductions[0].vars], stage.stores), stage.vars)
        self.most = min(self.best.size, BLOCK)
        rows = LoopBody([*reductions[0].vars], stage.stores)
        self.rows, self._gone = arranged(rows, reductions[0].vars)
        self._apart: list[TransposedRows] = []

    def kernel(self, cost: int) -> None:
        """All results, of which one takes `cost` a row, in blocks that threads share."""
        height = math.prod(v.size for v in self.rows)
        blocks = Var("block", -(-self.best.size // BLOCK), None, -1)
        items = [*self.others, blocks]
        count = math.prod(v.size for v in items)
        work = cost * height * self.most
        pieces = least(-(-TASKS // count), count * work // (2 * TASK_COST)) if self.rows else 1
        if count < TASKS // 2 and pieces > 1:
            self._in_pieces(items, work, pieces)
            return
        with self.phases.phase(items, work) as elements:
            self._block(elements, elements.b.mul(elements.vars[blocks], I64(BLOCK)))

    def inside(self, elements: Elements) -> None:
        """Emits all results of the reduction as a part of other loops."""
        with elements.loops(self.others):
            if self.best.size <= 4 * BLOCK:
                self._results(elements, I64(0), i64(self.best.size), self.best.size)
            else:
                with loop(elements.b, 0, self.best.size, BLOCK) as first, elements.scope():
                    self._block(elements, first)

    def _in_pieces(self, items: list[Var], work: int, pieces: int) -> None:
        """First results of pieces of the rows, then those of the pieces."""
        phases, outermost = self.phases, self.rows[0]
        # pieces of whole runs
        size = -(-outermost.size // pieces)
        size = -(-size // RUN) * RUN if len(self.rows) == 1 else size
        part = Var("part", -(-outermost.size // size), None, -2)
        order = [*self.others, self.best]
        total = math.prod(v.size for v in order)
        scratch = {
            (id(reduction), k): phases.add_scratch(part.size * total * representation_of(reduction, k).kept.bytes)
            for reduction in self.reductions
            for k in range(len(reduction.inits))
        }
        address = linear((variable(part), *map(variable, order)), (part.size, *(v.size for v in order)))
        blocks = items[-1]
        with phases.phase([*items, part], work // part.size) as elements:
            b = elements.b
            first = b.mul(elements.vars[blocks], I64(BLOCK))
            lanes = self._lanes(elements, first, self._left(b, first))
            state = self._states(b, self.most)
            self._start(elements, state, self.most, elements.identity_values)
            begin = b.mul(elements.vars[part], i64(size))
            end = intrinsic(b, "smin", b.add(begin, i64(size)), i64(outermost.size))
            self._accumulate(elements, state, lanes, begin, end, self.most, size)
            with lanes() as lane:
                for reduction in self.reductions:
                    for k, accumulator in enumerate(state[id(reduction)]):
                        pointer = phases.scratch_pointer(scratch[id(reduction), k])
                        kept = accumulator.representation.kept
                        index = elements.index(address)
                        element_access.store(b, pointer, kept, index, accumulator.get(lane), exact=True)
        with phases.phase(items, part.size * self.most) as elements:
            b = elements.b
            first = b.mul(elements.vars[blocks], I64(BLOCK))
            lanes = self._lanes(elements, first, self._left(b, first))
            state = self._states(b, self.most)
            self._start(elements, state, self.most, elements.initial_values)
            with loop(b, 0, part.size, name="part", hints=VECTOR_ONLY) as elements.vars[part], lanes() as lane:
                for reduction in self.reductions:
                    values = [
                        element_access.load(
                            b,
                            phases.scratch_pointer(scratch[id(reduction), k]),
                            a.representation.kept,
                            elements.index(address),
                        )
                        for k, a in enumerate(state[id(reduction)])
                    ]
                    elements.combine(reduction, [a.lane(lane) for a in state[id(reduction)]], values)
            with lanes() as lane:
                self._store(elements, state, lane)

    def _left(self, b: ir.IRBuilder, first: ir.Value) -> ir.Value:
        if self.best.size % BLOCK == 0 or self.best.size < BLOCK:  # known: then no loop has a remainder
            return i64(self.most)
        return intrinsic(b, "smin", b.sub(i64(self.best.size), first), I64(BLOCK))

    def _block(self, elements: Elements, first: ir.Value) -> None:
        """The results from `first` on, at most BLOCK."""
        self._results(elements, first, self._left(elements.b, first), self.most)

    def _results(self, elements: Elements, first: ir.Value, count: ir.Value, most: int) -> None:
        """`count` results, at most `most`, from `first` on."""
        lanes = self._lanes(elements, first, count)
        state = self._states(elements.b, most)
        self._set_apart(elements, first, count, most)
        self._start(elements, state, most, elements.initial_values)
        last = self.rows[0].size if self.rows else 1
        self._accumulate(elements, state, lanes, I64(0), i64(last), most, last)
        with lanes() as lane:
            self._store(elements, state, lane)

    def _set_apart(self, elements: Elements, first: ir.Value, count: ir.Value, most: int) -> None:
        """What is taken from memory of its own, as it lies there transposed."""
        if len(self.rows) != 1 or self.phases.seldom:
            return
        (within,) = self.rows
        elements.unbind(self._gone)
        nodes = [n for f in self.reductions for n in f.elements]
        with elements.scope():
            elements.vars.update({self.best: first, within: I64(0)})
            for node in loads_of_short_rows(nodes, self.best, within, most):
                self._apart.append(TransposedRows(elements, node, within.size, most))
                self._apart[-1].fill(count)

    # -- loops
    def _lanes(self, elements: Elements, first: ir.Value, count: ir.Value) -> Lanes:
        @contextmanager
        def lanes() -> Iterator[ir.Value]:
            hints = VECTOR_ONLY if self.best.size > FEW else ()
            with loop(elements.b, 0, count, name="lane", hints=hints) as lane, elements.scope():
                elements.vars[self.best] = elements.b.add(first, lane, flags=["nsw"])
                yield lane

        return lanes

    def _accumulate(
        self, elements: Elements, state: States, lanes: Lanes, begin: ir.Value, end: ir.Value, most: int, height: int
    ) -> None:
        """Rows of which the outermost loop's number is from `begin` to `end`."""
        b = elements.b
        elements.unbind(self._gone)
        if not self.rows:
            with lanes() as lane:
                for reduction in self.reductions:
                    elements.accumulate(reduction, [a.lane(lane) for a in state[id(reduction)]])
            return
        with ExitStack() as stack:
            for var, following in pairwise(self.rows):
                elements.vars[var] = stack.enter_context(loop(b, begin, end, name=var.name, hints=VECTOR_ONLY))
                begin, end = I64(0), i64(following.size)
            stack.enter_context(elements.scope())
            masked = masked_range(self.reductions, self.rows[-1], self.best)
            if masked is None:
                self._rows_between(elements, state, lanes, begin, end, most, height)
                return
            chosen("only where masks hold", f"elements elsewhere do not change along {self.rows[-1].name}")
            with unmasked_part(elements, masked, self.rows[-1], begin, end) as (first, last):
                self._rows_between(elements, state, lanes, first, last, most, height, is_whole=False)
            with outside(elements, begin, end, first, last) as count, lanes() as lane:
                for reduction, node in zip(self.reductions, masked.outside, strict=True):
                    take_outside(elements, reduction, node, [a.lane(lane) for a in state[id(reduction)]], count)

    def _rows_between(
        self,
        elements: Elements,
        state: States,
        lanes: Lanes,
        begin: ir.Value,
        end: ir.Value,
        most: int,
        height: int,
        *,
        is_whole: bool = True,
    ) -> None:
        """Rows of the innermost loop, in runs where there are many: as many as it was planned with, if `is_whole`."""
        b = elements.b
        if not self._in_runs(height):
            self._take(elements, state, lanes, begin, end, is_whole=is_whole)
            return
        # sums of sums: the error grows with the length of a run and their number, not with all of it
        part = self._states(b, most)
        with loop(b, begin, end, RUN, name="run", hints=VECTOR_ONLY) as first, elements.scope():
            self._start(elements, part, most, elements.identity_values)
            last = intrinsic(b, "smin", b.add(first, I64(RUN)), end)
            self._take(elements, part, lanes, first, last, is_whole=is_whole)
            with lanes() as lane:
                for reduction in self.reductions:
                    values = [a.get(lane) for a in part[id(reduction)]]
                    elements.combine(reduction, [a.lane(lane) for a in state[id(reduction)]], values)

    def _in_runs(self, outermost: int) -> bool:
        steps = outermost * math.prod(v.size for v in self.rows[1:]) // self._together()
        return are_sums(self.reductions) and steps > STEPS

    def _together(self) -> int:
        """How many rows are taken in one step."""
        nodes = len(walk([n for f in self.reductions for n in (*f.elements, *f.bodies)]))
        most = max(1, STEP_NODES * len(self.reductions) // nodes)
        size = max(1, self.rows[-1].size)
        if size > LONGEST:
            return next(k for k in (ROWS, 4, 2, 1) if k <= most)
        return next(k for k in (size, ROWS, 4, 2, 1) if k <= most and size % k == 0)

    def _take(
        self, elements: Elements, state: States, lanes: Lanes, begin: ir.Value, end: ir.Value, *, is_whole: bool
    ) -> None:
        """The rows of the innermost loop from `begin` to `end`, a part that it was cut into if that `is_whole`."""
        b, together = elements.b, self._together()
        if is_whole and self.rows[-1].size % together == 0:
            self._steps(elements, state, lanes, begin, end, together)
            return
        whole = b.sub(end, b.srem(b.sub(end, begin), I64(together)))
        self._steps(elements, state, lanes, begin, whole, together)
        self._steps(elements, state, lanes, whole, end, 1)

    def _steps(
        self, elements: Elements, state: States, lanes: Lanes, begin: ir.Value, end: ir.Value, together: int
    ) -> None:
        name = self.rows[-1].name
        step = self._summed if together > 1 and are_sums(self.reductions) else self._in_registers
        with (
            loop(elements.b, begin, end, together, name=name, hints=VECTOR_ONLY) as row,
            elements.scope(),
            lanes() as lane,
        ):
            step(elements, {id(f): [a.lane(lane) for a in state[id(f)]] for f in self.reductions}, row, lane, together)
            elements.staged = {}

    def _summed(self, elements: Elements, state: LaneStates, row: ir.Value, lane: ir.Value, together: int) -> None:
        """Sums of a step are added to each other first: the error grows with the number of steps."""
        taken: list[dict[int, list[Accumulator]]] = []
        for k in range(together):
            if k % 2 == 0:  # a product is added to the one before with one rounding
                taken.append(self._started(elements, elements.identity_values))
            self._row(elements, taken[-1], row, lane, k)
        while len(taken) > 1:
            for some, other in zip(taken[::2], taken[1::2], strict=False):  # the last may stay for the next time
                for reduction in self.reductions:
                    elements.combine(reduction, some[id(reduction)], [a.get() for a in other[id(reduction)]])
            taken = taken[::2]
        for reduction in self.reductions:
            elements.combine(reduction, state[id(reduction)], [a.get() for a in taken[0][id(reduction)]])

    def _in_registers(
        self, elements: Elements, state: LaneStates, row: ir.Value, lane: ir.Value, together: int
    ) -> None:
        """One row after the other; what masks have stored would not be there at once for the next row to load."""
        taken = {id(f): accumulators(elements.b, f) for f in self.reductions}
        _copy(state, taken)
        for k in range(together):
            self._row(elements, taken, row, lane, k)
        _copy(taken, state)

    def _row(self, elements: Elements, state: LaneStates, row: ir.Value, lane: ir.Value, k: int) -> None:
        """The k-th row of a step."""
        index = elements.b.add(row, I64(k), flags=["nsw"]) if k else row
        elements.vars[self.rows[-1]] = index
        elements.staged = {id(a.node): a.staged(index, lane) for a in self._apart}
        with elements.scope():
            for reduction in self.reductions:
                elements.accumulate(reduction, state[id(reduction)])

    # -- accumulators
    def _states(self, b: ir.IRBuilder, count: int) -> States:
        return {id(f): accumulators(b, f, count) for f in self.reductions}

    def _start(self, elements: Elements, state: States, count: int, values: Values) -> None:
        """All of an array's lanes, wanted or not: a constant number of them is less code."""
        with loop(elements.b, 0, count, name="lane", hints=VECTOR_ONLY) as lane, elements.scope():
            for reduction in self.reductions:
                for accumulator, value in zip(state[id(reduction)], values(reduction), strict=True):
                    accumulator.start(value, lane)

    def _started(self, elements: Elements, values: Values) -> dict[int, list[Accumulator]]:
        """Accumulators of one lane, in registers."""
        state = {id(f): accumulators(elements.b, f) for f in self.reductions}
        for reduction in self.reductions:
            for accumulator, value in zip(state[id(reduction)], values(reduction), strict=True):
                accumulator.start(value)
        return state

    def _store(self, elements: Elements, state: States, lane: ir.Value | None = None) -> None:
        for store in self.stage.stores:
            accumulator = state[id(store.node.reduction)][store.node.number]  # type: ignore[attr-defined]
            self.phases.store(elements, store, accumulator.result(lane))


def _copy(source: LaneStates, target: LaneStates) -> None:
    """What has been accumulated, to other accumulators."""
    for key, states in source.items():
        for of, to in zip(states, target[key], strict=True):
            to.set(of.get())
