"""Folds as loops: along what is folded, in lanes of neighbouring results, or in pieces that are folded in the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.intrinsics import intrinsic
from xloom.cpu.emit.loop import VECTOR_ONLY, loop
from xloom.cpu.emit.types import I64
from xloom.cpu.loops.accumulators import Accumulator, Merging, Sum, accumulators, representation_of
from xloom.cpu.loops.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nest import Stage, merged, ordered, stride_score
from xloom.cpu.loops.nodes import Fold
from xloom.cpu.loops.phases import Phases
from xloom.hlo.dtype import Kind

BLOCK = 256
"""Elements of a row that a fold along columns keeps at a time."""
RUN = 32
"""Rows that a sum along columns adds up before they are added to the rows before."""
LANES = 32
"""Accumulators of a fold along a row that LLVM does not vectorise by itself."""
PARTS = 64
"""Pieces of a fold to a single value; a constant, so that results do not depend on the number of threads."""

States = Mapping[int, Sequence[Accumulator]]
"""The accumulators of each fold, by its identity."""


class Folding:
    """The folds of one stage."""

    def __init__(self, phases: Phases, stage: Stage, folds: list[Fold]):
        self.phases = phases
        self.stage = stage
        self.folds = folds
        self.all_loops = Stage([*stage.vars, *folds[0].vars], stage.stores)

    @property
    def extent(self) -> int:
        """Elements a result."""
        return math.prod(v.size for v in self.folds[0].vars)

    def lies_along_kept(self) -> bool:
        """True when neighbours in memory belong to different results."""
        wide = [v for v in self.stage.vars if v.size >= 8]
        if not wide:
            return False
        reduced = [v for v in self.folds[0].vars if v.size >= 8]
        best_kept = max(stride_score(self.all_loops, v) for v in wide)
        return not reduced or best_kept > max(stride_score(self.all_loops, v) for v in reduced)

    def in_rows(self, elements: Elements) -> None:
        """All results, as a part of other loops."""
        if not self.lies_along_kept():
            with elements.loops(ordered(self.all_loops, self.stage.vars)):
                self.horizontal(elements)
            return
        *others, best = ordered(self.all_loops, self.stage.vars)
        with elements.loops(others):
            if best.size <= 4 * BLOCK:
                self._vertical(elements, best, I64(0), I64(best.size), best.size)
            else:
                with loop(elements.b, 0, best.size, BLOCK) as first, elements.scope():
                    self.block(elements, best, first)

    # -- lanes are neighbouring results
    def block(self, elements: Elements, best: Var, first: ir.Value) -> None:
        """The results from `first` on along `best`, at most BLOCK."""
        b = elements.b
        count = intrinsic(b, "smin", b.sub(I64(best.size), first), I64(BLOCK))
        self._vertical(elements, best, first, count, BLOCK)

    def _vertical(self, elements: Elements, best: Var, first: ir.Value, count: ir.Value, most: int) -> None:
        """`count` results, at most `most`, from `first` on along `best`: each step takes a piece of a row into all."""
        b = elements.b
        folds = self.folds
        state = self._states(b, most)

        @contextmanager
        def lanes() -> Iterator[ir.Value]:
            with loop(b, 0, count, name="lane") as lane, elements.scope():
                elements.vars[best] = b.add(first, lane, flags=["nsw"])
                yield lane

        def start(state: States, values: Callable[[Fold], Sequence[types.Value]]) -> None:
            with lanes() as lane:
                for fold in folds:
                    for accumulator, value in zip(state[id(fold)], values(fold), strict=True):
                        accumulator.start(value, lane)

        def steps(state: States, loops: Sequence[Var]) -> None:
            with elements.loops(loops), lanes() as lane:
                for fold in folds:
                    elements.step(fold, [a.lane(lane) for a in state[id(fold)]])

        start(state, lambda fold: [elements.value(i) for i in fold.inits])
        step_stage = Stage([*folds[0].vars], self.stage.stores)
        loops, gone = merged([step_stage], ordered(step_stage, folds[0].vars))
        elements.unbind(gone)
        if loops and all(map(_is_float_sum, folds)) and math.prod(v.size for v in loops) > 2 * RUN:
            # sums of sums: the error grows with the length of a run and their number, not with all of it
            part = self._states(b, most)
            *outer, last = loops
            with (
                elements.loops(outer),
                loop(b, 0, last.size, RUN, name="run", hints=VECTOR_ONLY) as begin,
                elements.scope(),
            ):
                start(part, lambda fold: [types.constant(0, i.dtype) for i in fold.inits])
                end = intrinsic(b, "smin", b.add(begin, I64(RUN)), I64(last.size))
                with loop(b, begin, end, name=last.name, hints=VECTOR_ONLY) as at:
                    elements.vars[last] = at
                    with elements.scope():
                        steps(part, [])
                with lanes() as lane:
                    for fold in folds:
                        values = [a.get(lane) for a in part[id(fold)]]
                        elements.combine(fold, [a.lane(lane) for a in state[id(fold)]], values)
        else:
            steps(state, loops)
        with lanes() as lane:
            self._results(elements, state, lane)

    # -- one result at a time
    def horizontal(self, elements: Elements) -> None:
        """One result, along the loops that are folded."""
        loops, gone = merged([self.all_loops], ordered(self.all_loops, self.folds[0].vars))
        elements.unbind(gone)
        if all(map(_vectorises, self.folds)) or not loops or loops[-1].size < 2 * LANES:
            state = self._started(elements)
            with elements.loops(loops):
                self._step(elements, state)
        else:
            state = self._in_lanes(elements, loops)
        self._results(elements, state, None)

    def _in_lanes(self, elements: Elements, loops: list[Var]) -> States:
        """Any computation in vector lanes: each starts from the initial value, and in the end they are folded."""
        b = elements.b
        *outer, inner = loops
        lanes = self._states(b, LANES)
        with loop(b, 0, LANES, name="lane") as lane, elements.scope():
            for fold in self.folds:
                for accumulator, init in zip(lanes[id(fold)], fold.inits, strict=True):
                    accumulator.start(elements.value(init), lane)
        whole = inner.size // LANES * LANES
        state = self._started(elements)
        with elements.loops(outer):
            with (
                loop(b, 0, whole, LANES, name=inner.name) as base,
                loop(b, 0, LANES, name="lane") as lane,
                elements.scope(),
            ):
                elements.vars[inner] = b.add(base, lane, flags=["nsw"])
                for fold in self.folds:
                    elements.step(fold, [a.lane(lane) for a in lanes[id(fold)]])
            if whole < inner.size:
                with loop(b, whole, inner.size, name=inner.name) as rest, elements.scope():
                    elements.vars[inner] = rest
                    self._step(elements, state)
        with loop(b, 0, LANES, name="lane") as lane:
            for fold in self.folds:
                elements.combine(fold, state[id(fold)], [a.get(lane) for a in lanes[id(fold)]])
        return state

    # -- a single result
    def whole(self, cost: int) -> None:
        """A fold to a single value: pieces of the outermost loop side by side, then the pieces."""
        phases, folds = self.phases, self.folds
        loops, gone = merged([self.all_loops], ordered(self.all_loops, folds[0].vars))
        split, rest = loops[0], loops[1:]
        parts = min(PARTS, split.size)
        numbers = {
            (id(fold), k): phases.add_scratch((16 if init.dtype.is_complex else 8) * parts)
            for fold in folds
            for k, init in enumerate(fold.inits)
        }
        part = Var("part", parts, None, -1)
        with phases.phase([part], cost * self.extent // parts) as elements:
            elements.unbind(gone)
            b = elements.b
            state = self._started(elements)
            at = elements.vars[part]
            begin = b.udiv(b.mul(at, I64(split.size)), I64(parts))
            end = b.udiv(b.mul(b.add(at, I64(1)), I64(split.size)), I64(parts))
            with loop(b, begin, end, name=split.name) as i, elements.scope():
                elements.vars[split] = i
                with elements.loops(rest):
                    self._step(elements, state)
            for fold in folds:
                for k, accumulator in enumerate(state[id(fold)]):
                    pointer = phases.scratch_pointer(numbers[id(fold), k])
                    types.store(b, pointer, accumulator.representation.kept, at, accumulator.get())
        with phases.phase([], 0) as elements:
            b = elements.b
            state = self._started(elements)
            with loop(b, 0, parts, name="part") as at, elements.scope():
                for fold in folds:
                    values = [
                        types.load(b, phases.scratch_pointer(numbers[id(fold), k]), a.representation.kept, at)
                        for k, a in enumerate(state[id(fold)])
                    ]
                    elements.combine(fold, state[id(fold)], values)
            self._results(elements, state, None)

    # -- accumulators
    def _states(self, b: ir.IRBuilder, lanes: int | None = None) -> States:
        return {id(f): accumulators(b, f, lanes) for f in self.folds}

    def _started(self, elements: Elements) -> States:
        state = self._states(elements.b)
        for fold in self.folds:
            for accumulator, init in zip(state[id(fold)], fold.inits, strict=True):
                accumulator.start(elements.value(init))
        return state

    def _step(self, elements: Elements, state: States) -> None:
        for fold in self.folds:
            elements.step(fold, state[id(fold)])

    def _results(self, elements: Elements, state: States, lane: ir.Value | None) -> None:
        for store in self.stage.stores:
            value = state[id(store.node.fold)][store.node.number].result(lane)  # type: ignore[attr-defined]
            self.phases.store(elements, store, value)


def _vectorises(fold: Fold) -> bool:
    """True when LLVM turns the scalar loop into vector code."""
    dtype = fold.inits[0].dtype
    if isinstance(representation_of(fold), Merging):
        return dtype.is_float
    exact = dtype.is_integer and dtype.bits >= 8
    if fold.plain in ("add", "multiply", "maximum", "minimum"):
        return exact
    return (exact or dtype.kind is Kind.PRED) and fold.plain in ("and", "or", "xor")


def _is_float_sum(fold: Fold) -> bool:
    return fold.plain == "add" and isinstance(representation_of(fold), Sum)
