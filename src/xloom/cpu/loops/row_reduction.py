"""Reductions along what lies together in memory: one result at a time, and a single one in pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, Merging, State, accumulators, are_sums, representation_of
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.masked_range import masked_range
from xloom.codegen.loop_ir.nest import LoopBody, arranged, cost_of, ordered, stride_score
from xloom.codegen.loop_ir.nodes import Load, Reduction, walk
from xloom.codegen.loop_ir.pieces import FEW, cuts_of
from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.known_places import known_places
from xloom.cpu.loops.phases import TASK_COST, Phases, counters
from xloom.cpu.loops.short_rows import transposed_rows_fit
from xloom.cpu.loops.unmasked_part import outside, take_outside, unmasked_part
from xloom.hlo.dtype import Kind
from xloom.llvm import element_access
from xloom.llvm.cache_lines import CACHED
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import AS_OFTEN, VECTOR_ONLY, Hint, hints_for, loop, summing_part_hints
from xloom.llvm.symbolic_dimension import number
from xloom.llvm.types import I64, i64

LANES = (16, 64)
"""Accumulators, at least and at most, of a reduction along a row that LLVM does not vectorise by itself."""
PARTS = 64
"""Pieces of a reduction to a single value; a constant, so that results do not depend on the number of threads."""
RUN = 64
"""Steps in which a sum is made before it is added to that of those before, at the least."""
_ROWS = 4
"""Rows that are reduced side by side where no cache holds them: processors then fetch ahead in as many places."""
_LONG_ROW = 4096
"""Bytes of such rows at least: what follows shorter ones is fetched with them."""
_CHEAP = 4
"""Additions that an element of such rows costs at most: else it is not memory that takes the time."""
_AT_ONCE = 4
"""Registers in which a loop adds, about."""
MANY = 4096
"""Elements of each result that are worth lanes of fewer results than make a vector."""
_DEAR = 12
"""Additions that an element costs which are, too."""
_IN_A_CHAIN = 3
"""Terms that are added one after another, in registers; of more, every other one is, so that fewer wait."""

States = Mapping[int, Sequence[Accumulator]]
"""The accumulators of each reduction, by its identity."""


class _Range(NamedTuple):
    """The iterations of a loop from `begin` to `end`; of known `size`, where LLVM is to see how many there are."""

    begin: ir.Value
    end: ir.Value
    size: int | None
    hints: Sequence[Hint] = ()


class _Row(NamedTuple):
    """A result in the making: where the loops around it are, those that are not as before, and its accumulators."""

    place: Mapping[Var, ir.Value]
    states: States


class RowReduction:
    """Emits the reductions of one loop body, one result after another."""

    def __init__(self, phases: Phases, stage: LoopBody, reductions: Sequence[Reduction]):
        self.phases = phases
        self.stage = stage
        self.reductions = reductions
        self.all_loops = LoopBody([*stage.vars, *reductions[0].vars], stage.stores)

    def kernel(self, cost: int) -> None:
        """Adds the phases of all results, each element of which costs `cost` additions; a single result in pieces."""
        extent = math.prod(v.size for v in self.reductions[0].vars)
        if not self.stage.vars and extent * cost > 4 * TASK_COST and not self.phases.serial:
            self._whole(extent * cost)
            return
        outer = ordered(self.all_loops, self.stage.vars)
        if not self._is_streamed(cost):
            with self.phases.phase(outer, cost * extent) as elements:
                self.horizontal(elements)
            return
        rows = math.prod(v.size for v in outer)
        if rows % _ROWS == 0:
            strip = Var("rows", rows // _ROWS, None, -1)
            with self.phases.phase([strip], cost * extent * _ROWS, block=_ROWS) as elements:
                first = elements.b.mul(elements.vars[strip], I64(_ROWS), flags=["nsw"])
                self._side_by_side(elements, _places(elements, outer, first, _ROWS))
            return
        with self.phases.phase(outer, cost * extent, open_ended=True) as elements:
            b, (begin, end) = elements.b, elements.bounds
            whole = b.sub(end, b.srem(b.sub(end, begin), I64(_ROWS)))
            for first, last, count in ((begin, whole, _ROWS), (whole, end, 1)):
                with loop(b, first, last, count, name="row", hints=AS_OFTEN) as row, elements.scope():
                    self._side_by_side(elements, _places(elements, outer, row, count))

    def at_known_places(self, cost: int) -> None:
        """Adds a phase of all results of which each step is written for itself."""
        loops = self.reductions[0].vars
        extent = math.prod(v.size for v in (*self.stage.vars, *loops))
        with self.phases.phase([], cost * extent) as elements:
            for _ in known_places(elements, self.stage.vars):
                state = self._started(elements)
                chains = [state]
                if math.prod(v.size for v in loops) > _IN_A_CHAIN and are_sums(self.reductions):
                    chains.append(self._started(elements, identity_value=True))
                for place, _ in enumerate(known_places(elements, loops)):
                    self._accumulate(elements, [_Row({}, chains[place % len(chains)])])
                for other in chains[1:]:
                    self._combine(elements, state, other)
                self._results(elements, state)

    def _combine(self, elements: Elements, state: States, other: States) -> None:
        for reduction in self.reductions:
            elements.combine(reduction, state[id(reduction)], [a.get() for a in other[id(reduction)]])

    def _is_streamed(self, cost: int) -> bool:
        """True where rows are long and cheap, and of an array that no cache holds."""
        loops, _ = arranged(self.all_loops, self.reductions[0].vars)
        if cost > _CHEAP or len(loops) != 1 or not self.stage.vars or not all(map(_vectorises, self.reductions)):
            return False
        last = self.phases.module.target.caches.last
        loads = [n for n in walk([n for f in self.reductions for n in f.elements]) if isinstance(n, Load)]
        return any(
            self.phases.nbytes(n.source) > CACHED * last
            and n.address.factor(loops[0]) == 1
            and loops[0].size * n.dtype.bytes >= _LONG_ROW
            for n in loads
        )

    def inside(self, elements: Elements) -> None:
        """Emits all results of the reduction as a part of other loops."""
        with elements.loops(ordered(self.all_loops, self.stage.vars)):
            self.horizontal(elements)

    # -- one result at a time
    def horizontal(self, elements: Elements) -> None:
        """Emits one result: the loops that are reduced."""
        loops, gone = arranged(self.all_loops, self.reductions[0].vars)
        elements.unbind(gone)
        if self._is_scalar(loops):
            state = self._started(elements)
            self._take(elements, [_Row({}, state)], loops)
        else:
            *outer, inner = loops
            lanes = _Lanes(elements, self.reductions, inner)
            with elements.loops(outer):
                lanes.take(I64(0), i64(inner.size))
            state = self._started(elements)
            lanes.join(state)
        self._results(elements, state)

    def _is_scalar(self, loops: list[Var]) -> bool:
        """True when elements are taken one by one, by LLVM in vectors where it may."""
        return all(map(_vectorises, self.reductions)) or not loops or loops[-1].size < 2 * LANES[0]

    def _side_by_side(self, elements: Elements, places: Sequence[Mapping[Var, ir.Value]]) -> None:
        """Emits the results of several rows, a step of each in turn."""
        loops, gone = arranged(self.all_loops, self.reductions[0].vars)
        elements.unbind(gone)
        rows = []
        for place in places:
            with _at(elements, place):
                rows.append(_Row(place, self._started(elements)))
        self._take(elements, rows, loops)
        for row in rows:
            with _at(elements, row.place):
                self._results(elements, row.states)

    # -- a single result
    def _whole(self, cost: int) -> None:
        """A single value: pieces of the outermost loop side by side, then the pieces."""
        phases, reductions = self.phases, self.reductions
        loops, gone = arranged(self.all_loops, reductions[0].vars)
        split, rest = loops[0], loops[1:]
        parts = min(PARTS, split.size)
        numbers = {
            (id(reduction), k): phases.add_scratch((16 if init.dtype.is_complex else 8) * parts)
            for reduction in reductions
            for k, init in enumerate(reduction.inits)
        }
        part = Var("part", parts, None, -1)
        with phases.phase([part], cost // parts) as elements:
            elements.unbind(gone)
            b = elements.b
            state = self._started(elements, identity_value=True)
            at = elements.vars[part]
            span = _part(b, at, split.size, parts)
            if self._is_scalar(loops):
                self._take(elements, [_Row({}, state)], loops, span)
            else:
                lanes = _Lanes(elements, reductions, loops[-1])
                if rest:
                    with _ranging(elements, split, span), elements.loops(rest[:-1]):
                        lanes.take(I64(0), i64(rest[-1].size))
                else:
                    lanes.take(span.begin, span.end)
                lanes.join(state)
            for reduction in reductions:
                for k, accumulator in enumerate(state[id(reduction)]):
                    pointer = phases.scratch_pointer(numbers[id(reduction), k])
                    element_access.store(b, pointer, accumulator.representation.kept, at, accumulator.get(), exact=True)
        with phases.phase([], 0) as elements:
            b = elements.b
            state = self._started(elements)
            with loop(b, 0, parts, name="part", hints=VECTOR_ONLY) as at, elements.scope():
                for reduction in reductions:
                    values = [
                        element_access.load(
                            b, phases.scratch_pointer(numbers[id(reduction), k]), a.representation.kept, at
                        )
                        for k, a in enumerate(state[id(reduction)])
                    ]
                    elements.combine(reduction, state[id(reduction)], values)
            self._results(elements, state)

    # -- accumulators
    def _started(self, elements: Elements, *, identity_value: bool = False) -> States:
        state = _states(elements, self.reductions)
        for reduction in self.reductions:
            values = elements.identity_values(reduction) if identity_value else elements.initial_values(reduction)
            for accumulator, value in zip(state[id(reduction)], values, strict=True):
                accumulator.start(value)
        return state

    def _accumulate(self, elements: Elements, rows: Sequence[_Row]) -> None:
        for row in rows:
            with _at(elements, row.place):
                for reduction in self.reductions:
                    elements.accumulate(reduction, row.states[id(reduction)])

    def _take(
        self,
        elements: Elements,
        rows: Sequence[_Row],
        loops: list[Var],
        span: _Range | None = None,
    ) -> None:
        """All elements one by one, of the first loop those of `span`; long sums run by run.

        The error of a sum grows with the number of steps: of sums of sums, with the steps of a run and their number.
        """
        total, b = math.prod(v.size for v in loops), elements.b
        widest = max(max(4, init.dtype.bytes) for reduction in self.reductions for init in reduction.inits)
        at_once = _AT_ONCE * max(1, self.phases.module.target.registers.nbytes // widest)
        run = RUN * at_once
        while 2 * run * run < at_once * total:  # up to about the root of that, by steps of two
            run *= 2
        if total <= 2 * run or not are_sums(self.reductions):
            self._loops(elements, rows, loops, span)
            return
        within = next(k for k in range(1, len(loops) + 1) if math.prod(v.size for v in loops[k:]) <= run)
        if within < len(loops):
            with _bounded(elements, loops[:within], span), self._run(elements, rows) as parts:
                self._loops(elements, parts, loops[within:], None)
            return
        *outer, inner = loops
        with (
            _bounded(elements, outer, span if outer else None),
            self._unmasked(elements, rows, inner, None if outer else span) as part,
        ):
            begin, end, size, hints = part or _Range(I64(0), i64(inner.size), inner.size)
            with loop(b, begin, end, run, name="run", hints=VECTOR_ONLY) as first, elements.scope():
                last, whole = b.add(first, I64(run), flags=["nsw"]), size is not None and size % run == 0
                piece = _Range(first, last if whole else intrinsic(b, "smin", last, end), run if whole else None, hints)
                with self._run(elements, rows) as parts:
                    self._in_pieces(elements, parts, inner, piece)

    def _loops(self, elements: Elements, rows: Sequence[_Row], loops: list[Var], span: _Range | None) -> None:
        """Elements of some loops, of the first only a span if there is one."""
        if not loops:
            self._accumulate(elements, rows)
            return
        *outer, inner = loops
        with (
            _bounded(elements, outer, span if outer else None),
            self._unmasked(elements, rows, inner, None if outer else span) as part,
        ):
            self._in_pieces(elements, rows, inner, part)

    @contextmanager
    def _unmasked(
        self, elements: Elements, rows: Sequence[_Row], inner: Var, span: _Range | None
    ) -> Iterator[_Range | None]:
        """The iterations whose elements are emitted meanwhile; those that masks leave out are taken at once."""
        masked = masked_range(self.reductions, inner) if len(rows) == 1 else None
        if masked is None:
            yield span
            return
        chosen("only where masks hold", f"elements elsewhere do not change along {inner.name}")
        (row,) = rows
        begin, end, *_ = span or _Range(I64(0), i64(inner.size), inner.size)
        with _at(elements, row.place), unmasked_part(elements, masked, inner, begin, end) as (first, last):
            yield _Range(first, last, None, summing_part_hints(self.phases.module.target))
        with _at(elements, row.place), outside(elements, begin, end, first, last) as count:
            for reduction, node in zip(self.reductions, masked.outside, strict=True):
                take_outside(elements, reduction, node, row.states[id(reduction)], count)

    def _in_pieces(self, elements: Elements, rows: Sequence[_Row], inner: Var, span: _Range | None) -> None:
        """Elements of the innermost loop, in pieces between which conditions on it do not change."""
        b, nodes = elements.b, [n for reduction in self.reductions for n in reduction.elements]
        cuts = cuts_of(nodes, inner, elements.ranges)
        elements.innermost = inner
        if not 0 < len(cuts) < FEW:
            with _bounded(elements, [inner], span):
                self._accumulate(elements, rows)
        else:
            begin, end, *_ = span or _Range(I64(0), i64(inner.size), inner.size)
            for low, high in pairwise([0, *cuts, inner.size]):
                elements.ranges[inner] = low, high - 1
                first, last = intrinsic(b, "smax", begin, I64(low)), intrinsic(b, "smin", end, I64(high))
                with elements.innermost_loop(inner, first, last, hints_for(high - low)), elements.scope():
                    self._accumulate(elements, rows)
            del elements.ranges[inner]
        elements.innermost = None

    @contextmanager
    def _run(self, elements: Elements, rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
        """Accumulators of a run of each row, which these then take up."""
        parts = [_Row(row.place, self._started(elements, identity_value=True)) for row in rows]
        yield parts
        for row, part in zip(rows, parts, strict=True):
            self._combine(elements, row.states, part.states)

    def _results(self, elements: Elements, state: States) -> None:
        for store in self.stage.stores:
            value = state[id(store.node.reduction)][store.node.number].result()  # type: ignore[attr-defined]
            self.phases.store(elements, store, value)


class _Lanes:
    """Any computation along `inner` in vector lanes, each from an identity value; in the end they are combined."""

    def __init__(self, elements: Elements, reductions: Sequence[Reduction], inner: Var):
        self._elements, self._reductions, self._inner = elements, reductions, inner
        most = LANES[1] // max(len(reduction.inits) for reduction in reductions)
        self._count = most
        if inner.size < 4 * most:
            self._count = min(most, 1 << (int(inner.size).bit_length() - 2))  # half of the row at most
        self._kept = _states(elements, reductions, self._count)
        with loop(elements.b, 0, self._count, name="lane") as lane, elements.scope():
            for reduction in reductions:
                for accumulator, value in zip(
                    self._kept[id(reduction)], elements.identity_values(reduction), strict=True
                ):
                    accumulator.start(value, lane)

    def take(self, begin: ir.Value, end: ir.Value) -> None:
        """The elements from `begin` to `end`, one in each lane at a time."""
        b, count = self._elements.b, I64(self._count)
        last = b.sub(end, b.srem(b.sub(end, begin), count))
        with loop(b, begin, last, self._count, name=self._inner.name) as base:
            self._accumulate(base, count)
        if not (isinstance(begin, ir.Constant) and self._inner.size % self._count == 0):
            self._accumulate(last, b.sub(end, last))

    def _accumulate(self, base: ir.Value, count: ir.Value) -> None:
        elements = self._elements
        with loop(elements.b, 0, count, name="lane") as lane, elements.scope():
            elements.vars[self._inner] = elements.b.add(base, lane, flags=["nsw"])
            for reduction in self._reductions:
                elements.accumulate(reduction, [a.lane(lane) for a in self._kept[id(reduction)]])

    def join(self, state_of: States) -> None:
        """Combines all lanes into `state_of` each reduction."""
        elements, count = self._elements, self._count
        kept, spare = self._kept, _states(elements, self._reductions, max(1, count // 2))
        while count > 1:  # halves of the lanes, so that these are vectors too
            count //= 2
            with loop(elements.b, 0, count, name="lane", hints=VECTOR_ONLY) as lane:
                other = elements.b.add(lane, I64(count))
                for reduction in self._reductions:
                    pairs = zip(kept[id(reduction)], spare[id(reduction)], strict=True)
                    state = [_Moving(k.lane(lane), s.lane(lane)) for k, s in pairs]
                    elements.combine(reduction, state, [a.get(other) for a in kept[id(reduction)]])
            kept, spare = spare, kept
        for reduction in self._reductions:
            elements.combine(reduction, state_of[id(reduction)], [a.get(I64(0)) for a in kept[id(reduction)]])


class _Moving:
    """An accumulator that is read at one place and written at another.

    Where one is written that was read, LLVM stores only what has changed, and processors wait for such stores before
    they load from there.
    """

    def __init__(self, source: State, target: State):
        self.representation = source.representation
        self.get, self.set = source.get, target.set


def _states(elements: Elements, reductions: Sequence[Reduction], lanes: int | None = None) -> States:
    return {id(f): accumulators(elements.b, f, lanes) for f in reductions}


def _places(elements: Elements, outer: Sequence[Var], first: ir.Value, count: int) -> list[dict[Var, ir.Value]]:
    """Where so many rows are, from number `first` on."""
    b = elements.b
    return [counters(b, outer, b.add(first, I64(k), flags=["nsw"])) for k in range(count)]


@contextmanager
def _at(elements: Elements, place: Mapping[Var, ir.Value]) -> Iterator[None]:
    """What is emitted there is of a row alone."""
    with elements.scope():
        elements.vars.update(place)
        yield


@contextmanager
def _bounded(elements: Elements, loops: list[Var], span: _Range | None) -> Iterator[None]:
    """Loops, of the first only a span if there is one."""
    if span is None:
        with elements.loops(loops):
            yield
        return
    with _ranging(elements, loops[0], span), elements.loops(loops[1:]):
        yield


@contextmanager
def _ranging(elements: Elements, var: Var, span: _Range) -> Iterator[None]:
    """A loop over some iterations of `var`: LLVM sees the length of those that are counted from 0."""
    b, (begin, end, size, hints) = elements.b, span
    known = size is not None
    with loop(b, 0 if known else begin, size if known else end, name=var.name, hints=hints) as i, elements.scope():
        elements.vars[var] = b.add(begin, i, flags=["nsw"]) if known else i
        yield


def _part(b: ir.IRBuilder, at: ir.Value, size: int, parts: int) -> _Range:
    """One of `parts` of about the same length."""
    if size % parts == 0:
        length = size // parts
        begin = b.mul(at, i64(length), flags=["nsw"])
        return _Range(begin, b.add(begin, i64(length), flags=["nsw"]), length)
    begin = b.udiv(b.mul(at, i64(size)), i64(parts))
    return _Range(begin, b.udiv(b.mul(b.add(at, I64(1)), i64(size)), i64(parts)), None)


def is_column_reduction(stage: LoopBody, reductions: Sequence[Reduction]) -> tuple[bool, str]:
    """Whether neighbours in memory belong to different results, or the rows that are reduced are short; and why."""
    loops = LoopBody([*stage.vars, *reductions[0].vars], stage.stores)
    extent = math.prod(v.size for v in reductions[0].vars)
    dear = cost_of([e for f in reductions for e in f.elements]) >= _DEAR
    wide = [v for v in stage.vars if v.size >= 8 or (v.size >= 5 and (dear or extent >= MANY))]
    if not wide:
        return False, "there are too few results for a vector"
    if _are_short(reductions):
        return True, f"rows of {number(extent)} are too short for vectors along them"
    reduced = [v for v in arranged(loops, reductions[0].vars)[0] if v.size >= 8]
    if not reduced:
        neighbours = f"that of {wide[0].name} has {number(wide[0].size)}"
        return True, f"no dimension that is reduced has 8 elements, and {neighbours}"
    best = max(stride_score(loops, v) for v in wide)
    if best > max(stride_score(loops, v) for v in reduced):
        return True, "neighbours in memory belong to different results"
    return False, "neighbours in memory belong to one result"


def _are_short(reductions: Sequence[Reduction]) -> bool:
    """True for rows that are no whole vectors, and for longer ones of which a vector is not reduced by one operator."""
    extent = math.prod(v.size for v in reductions[0].vars)
    if all(f.plain for f in reductions):
        return extent < LANES[0] and extent != LANES[0] // 2
    return extent != LANES[0] // 2 and transposed_rows_fit([n for f in reductions for n in f.elements], extent)


def _vectorises(reduction: Reduction) -> bool:
    """True when LLVM turns the scalar loop into vector code."""
    dtype = reduction.inits[0].dtype
    if isinstance(representation_of(reduction), Merging):
        return dtype.is_float
    exact = dtype.is_integer and dtype.bits >= 8
    if reduction.plain in ("add", "multiply", "maximum", "minimum"):
        return exact
    return (exact or dtype.kind is Kind.PRED) and reduction.plain in ("and", "or", "xor")
