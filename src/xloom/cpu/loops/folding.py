"""Folds along what lies together in memory: one result at a time, and a single one in pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.loop import VECTOR_ONLY, loop
from xloom.cpu.emit.types import I64
from xloom.cpu.loops.accumulators import Accumulator, Merging, accumulators, representation_of
from xloom.cpu.loops.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nest import Stage, arranged, ordered, stride_score
from xloom.cpu.loops.nodes import Fold
from xloom.cpu.loops.phases import TASK_COST, Phases
from xloom.hlo.dtype import Kind

LANES = (16, 64)
"""Accumulators, at least and at most, of a fold along a row that LLVM does not vectorise by itself."""
PARTS = 64
"""Pieces of a fold to a single value; a constant, so that results do not depend on the number of threads."""

States = Mapping[int, Sequence[Accumulator]]
"""The accumulators of each fold, by its identity."""


class Folding:
    """The folds of one stage, one result after another."""

    def __init__(self, phases: Phases, stage: Stage, folds: Sequence[Fold]):
        self.phases = phases
        self.stage = stage
        self.folds = folds
        self.all_loops = Stage([*stage.vars, *folds[0].vars], stage.stores)

    def kernel(self, cost: int) -> None:
        """All results, each of `cost` an element; a single one in pieces."""
        extent = math.prod(v.size for v in self.folds[0].vars)
        if not self.stage.vars and extent * cost > 4 * TASK_COST:
            self._whole(extent * cost)
            return
        with self.phases.phase(ordered(self.all_loops, self.stage.vars), cost * extent) as elements:
            self.horizontal(elements)

    def inside(self, elements: Elements) -> None:
        """All results, as a part of other loops."""
        with elements.loops(ordered(self.all_loops, self.stage.vars)):
            self.horizontal(elements)

    # -- one result at a time
    def horizontal(self, elements: Elements) -> None:
        """One result, along the loops that are folded."""
        loops, gone = arranged(self.all_loops, self.folds[0].vars)
        elements.unbind(gone)
        if all(map(_vectorises, self.folds)) or not loops or loops[-1].size < 2 * LANES[0]:
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
        count = min(LANES[1], 1 << (inner.size.bit_length() - 2))  # half of the row at most
        lanes = self._states(b, count)
        with loop(b, 0, count, name="lane") as lane, elements.scope():
            for fold in self.folds:
                for accumulator, value in zip(lanes[id(fold)], elements.neutral_values(fold), strict=True):
                    accumulator.start(value, lane)
        whole = inner.size // count * count
        with elements.loops(outer):
            with loop(b, 0, whole, count, name=inner.name) as base:
                self._step_lanes(elements, lanes, inner, base, count)
            if whole < inner.size:
                self._step_lanes(elements, lanes, inner, I64(whole), inner.size - whole)
        while count > 1:  # halves of the lanes, so that these are vectors too
            count //= 2
            with loop(b, 0, count, name="lane", hints=VECTOR_ONLY) as lane:
                other = b.add(lane, I64(count))
                for fold in self.folds:
                    kept = lanes[id(fold)]
                    elements.combine(fold, [a.lane(lane) for a in kept], [a.get(other) for a in kept])
        state = self._started(elements)
        for fold in self.folds:
            elements.combine(fold, state[id(fold)], [a.get(I64(0)) for a in lanes[id(fold)]])
        return state

    def _step_lanes(self, elements: Elements, lanes: States, inner: Var, base: ir.Value, count: int) -> None:
        """One element more in each of `count` lanes."""
        b = elements.b
        with loop(b, 0, count, name="lane") as lane, elements.scope():
            elements.vars[inner] = b.add(base, lane, flags=["nsw"])
            for fold in self.folds:
                elements.step(fold, [a.lane(lane) for a in lanes[id(fold)]])

    # -- a single result
    def _whole(self, cost: int) -> None:
        """A single value: pieces of the outermost loop side by side, then the pieces."""
        phases, folds = self.phases, self.folds
        loops, gone = arranged(self.all_loops, folds[0].vars)
        split, rest = loops[0], loops[1:]
        parts = min(PARTS, split.size)
        numbers = {
            (id(fold), k): phases.add_scratch((16 if init.dtype.is_complex else 8) * parts)
            for fold in folds
            for k, init in enumerate(fold.inits)
        }
        part = Var("part", parts, None, -1)
        with phases.phase([part], cost // parts) as elements:
            elements.unbind(gone)
            b = elements.b
            state = self._started(elements, neutral=True)
            at = elements.vars[part]
            begin, end = _part(b, at, split.size, parts)
            with loop(b, begin, end, name=split.name) as i, elements.scope():
                elements.vars[split] = i
                with elements.loops(rest):
                    self._step(elements, state)
            for fold in folds:
                for k, accumulator in enumerate(state[id(fold)]):
                    pointer = phases.scratch_pointer(numbers[id(fold), k])
                    types.store(b, pointer, accumulator.representation.kept, at, accumulator.get(), exact=True)
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

    def _started(self, elements: Elements, *, neutral: bool = False) -> States:
        state = self._states(elements.b)
        for fold in self.folds:
            values = elements.neutral_values(fold) if neutral else elements.initial_values(fold)
            for accumulator, value in zip(state[id(fold)], values, strict=True):
                accumulator.start(value)
        return state

    def _step(self, elements: Elements, state: States) -> None:
        for fold in self.folds:
            elements.step(fold, state[id(fold)])

    def _results(self, elements: Elements, state: States, lane: ir.Value | None) -> None:
        for store in self.stage.stores:
            value = state[id(store.node.fold)][store.node.number].result(lane)  # type: ignore[attr-defined]
            self.phases.store(elements, store, value)


def _part(b: ir.IRBuilder, at: ir.Value, size: int, parts: int) -> tuple[ir.Value, ir.Value]:
    """Where one of `parts` of about the same length begins and ends."""
    if size % parts == 0:  # of a length that LLVM sees
        begin = b.mul(at, I64(size // parts), flags=["nsw"])
        return begin, b.add(begin, I64(size // parts), flags=["nsw"])
    begin = b.udiv(b.mul(at, I64(size)), I64(parts))
    return begin, b.udiv(b.mul(b.add(at, I64(1)), I64(size)), I64(parts))


def along_kept(stage: Stage, folds: Sequence[Fold]) -> bool:
    """True when neighbours in memory belong to different results."""
    loops = Stage([*stage.vars, *folds[0].vars], stage.stores)
    wide = [v for v in stage.vars if v.size >= 8]
    if not wide:
        return False
    reduced = [v for v in folds[0].vars if v.size >= 8]
    best = max(stride_score(loops, v) for v in wide)
    return not reduced or best > max(stride_score(loops, v) for v in reduced)


def _vectorises(fold: Fold) -> bool:
    """True when LLVM turns the scalar loop into vector code."""
    dtype = fold.inits[0].dtype
    if isinstance(representation_of(fold), Merging):
        return dtype.is_float
    exact = dtype.is_integer and dtype.bits >= 8
    if fold.plain in ("add", "multiply", "maximum", "minimum"):
        return exact
    return (exact or dtype.kind is Kind.PRED) and fold.plain in ("and", "or", "xor")
