"""Nests to kernels: which loops are shared among threads, and how folds use vector lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise

from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.intrinsics import intrinsic
from xloom.cpu.emit.loop import PLAIN, VECTOR_ONLY, allocate, hints_for, loop
from xloom.cpu.emit.types import I64, POINTER, VOID
from xloom.cpu.kernel import TASK, Phase
from xloom.cpu.leaves import Source
from xloom.cpu.loops.affine import Affine, Var
from xloom.cpu.loops.emission import REASSOCIATED, Accumulator, Elements
from xloom.cpu.loops.nest import Nest, Stage, Store, breakpoints, cost_of, folds_of, merged, ordered, stride_score
from xloom.cpu.loops.nodes import Fold, Load
from xloom.cpu.loops.tiles import SIDE, Tile, crossing
from xloom.hlo.dtype import DType, Kind

BLOCK = 256
"""Elements of a row that a fold along columns keeps at a time."""
RUN = 32
"""Rows that a sum along columns adds up before they are added to the rows before."""
LANES = 32
"""Accumulators of a fold along a row that LLVM does not vectorise by itself."""
PARTS = 64
"""Pieces of a fold to a single value; a constant, so that results do not depend on the number of threads."""
PATCH = 128
"""Elements along each side of the squares that transposes are done in: so that few pages are touched at a time."""
TASK_COST = 40_000
"""Additions that are worth a task of their own."""


class Lowering:
    """Emits the phases of one nest into an LLVM module."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        nest: Nest,
        numbers: Mapping[Source, int],
        types_of: Callable[[Source], DType],
    ):
        self.module = module
        self.name = name
        self.nest = nest
        self.numbers = numbers
        self.types_of = types_of
        self.pointer_count = max(numbers.values(), default=-1) + 1
        self.scratch: list[int] = []
        self.phases: list[Phase] = []

    def run(self) -> None:
        """Emits everything."""
        stages = self.nest.stages
        if self.nest.outer:
            self._rows()
        elif folds := folds_of(stages[0]):
            self._fold_kernel(stages[0], folds)
        else:
            self._map_kernel(stages[0])

    # -- kinds of kernel
    def _map_kernel(self, stage: Stage) -> None:
        loops, gone = merged([stage], ordered(stage, stage.vars))
        cost = cost_of([s.node for s in stage.stores])
        cross = crossing(stage, loops)
        if cross is not None:
            self._tiled_kernel(stage, loops, gone, cost, *cross)
            return
        if not loops:
            with self._phase([], cost) as elements:
                self._stores(elements, stage.stores)
            return
        *outer, inner = loops
        with self._phase(outer or loops, cost * (inner.size if outer else 1), open_ended=not outer) as elements:
            _bind(elements, gone)
            begin, end = (I64(0), I64(inner.size)) if outer else elements.bounds
            self._along(elements, stage, inner, begin, end)

    def _along(self, elements: Elements, stage: Stage, inner: Var, begin: ir.Value, end: ir.Value) -> None:
        """The innermost loop, in pieces between which conditions on it do not change."""
        b = elements.b
        elements.innermost = inner
        cuts = breakpoints(stage, inner)
        for low, high in pairwise([0, *cuts, inner.size]):
            first = begin if not cuts else intrinsic(b, "smax", begin, I64(low))
            last = end if not cuts else least(b, end, I64(high))
            elements.ranges[inner] = (low, high - 1)
            with loop(b, first, last, name=inner.name, hints=hints_for(high - low)) as value, elements.scope():
                elements.vars[inner] = value
                self._stores(elements, stage.stores)
        elements.ranges.clear()
        elements.innermost = None

    def _tiled_kernel(
        self, stage: Stage, loops: list[Var], gone: dict[Var, None], cost: int, across: Var, nodes: list[Load]
    ) -> None:
        """Square tiles of two loops: what is loaded along one of them is transposed in registers."""
        inner = loops[-1]
        rows = Var("rows", -(-across.size // PATCH), None, -1)
        columns = Var("columns", -(-inner.size // PATCH), None, -2)
        others = [v for v in loops[:-1] if v != across]
        with self._phase([*others, rows, columns], cost * PATCH * PATCH) as elements:
            _bind(elements, gone)
            b = elements.b
            tiles = [Tile(elements, node, across, inner) for node in nodes]

            def bounds(patch: Var, size: int) -> tuple[ir.Value, ir.Value]:
                begin = b.mul(elements.vars[patch], I64(PATCH), flags=["nsw"])
                return begin, least(b, b.add(begin, I64(PATCH)), I64(size))

            first, second = bounds(rows, across.size), bounds(columns, inner.size)
            with (
                loop(b, *first, SIDE, name="rows", hints=PLAIN) as row,
                loop(b, *second, SIDE, name="columns", hints=PLAIN) as column,
                elements.scope(),
            ):
                self._tile(elements, stage, tiles, (across, row), (inner, column))

    def _tile(
        self,
        elements: Elements,
        stage: Stage,
        tiles: list[Tile],
        across: tuple[Var, ir.Value],
        along: tuple[Var, ir.Value],
    ) -> None:
        b = elements.b
        left = [b.sub(I64(var.size), first) for var, first in (across, along)]

        def emit(height: ir.Value | None, width: ir.Value | None) -> None:
            elements.vars.update((across, along))
            hints = VECTOR_ONLY if height is None else PLAIN
            with elements.scope():
                for tile in tiles:
                    tile.fill(height, width)
            with (
                loop(b, 0, SIDE if height is None else height, name="row", hints=hints) as row,
                loop(b, 0, SIDE if width is None else width, name="column", hints=hints) as column,
                elements.scope(),
            ):
                elements.vars[across[0]] = b.add(across[1], row, flags=["nsw"])
                elements.vars[along[0]] = b.add(along[1], column, flags=["nsw"])
                at = b.add(b.mul(row, I64(SIDE), flags=["nsw"]), column, flags=["nsw"])
                elements.staged = {id(t.node): (t.memory, at) for t in tiles}
                self._stores(elements, stage.stores)
            elements.staged = {}

        whole = b.and_(*(b.icmp_signed(">=", n, I64(SIDE)) for n in left))
        with b.if_else(whole) as (then, otherwise):
            with then:
                emit(None, None)
            with otherwise:
                emit(*(least(b, n, I64(SIDE)) for n in left))

    def _fold_kernel(self, stage: Stage, folds: list[Fold]) -> None:
        inner = Stage([*stage.vars, *folds[0].vars], stage.stores)
        cost = cost_of([e for f in folds for e in (*f.elements, *f.bodies)])
        extent = math.prod(v.size for v in folds[0].vars)
        if self._along_kept(inner, stage.vars, folds):
            order = ordered(inner, stage.vars)
            best = order[-1]
            blocks = Var("block", -(-best.size // BLOCK), None, -1)
            with self._phase([*order[:-1], blocks], cost * extent * min(best.size, BLOCK)) as elements:
                first = elements.b.mul(elements.vars[blocks], I64(BLOCK))
                count = least(elements.b, elements.b.sub(I64(best.size), first), I64(BLOCK))
                self._vertical(elements, stage, folds, best, first, count)
            return
        if not stage.vars and extent * cost > 4 * TASK_COST:
            self._whole(inner, stage, folds, cost)
            return
        with self._phase(ordered(inner, stage.vars), cost * extent) as elements:
            self._horizontal(elements, inner, stage, folds)

    def _rows(self) -> None:
        nest = self.nest
        cost = sum(_stage_cost(stage) for stage in nest.stages)
        outer, gone = merged(nest.stages, list(nest.outer))
        with self._phase(outer, cost) as elements:
            _bind(elements, gone)
            for source in sorted(nest.private, key=lambda s: (s[0].name, s[1])):
                size = self._private_size(source)
                kind = types.memory_type(self.types_of(source))
                count = size * (2 if self.types_of(source).is_complex else 1)
                slot = allocate(elements.b, kind, count)
                slot.align = 64
                self._pointers[source] = slot
            for stage in nest.stages:
                with elements.scope():
                    self._inner_stage(elements, stage)

    def _private_size(self, source: Source) -> int:
        addresses = [s.address for g in self.nest.stages for s in g.stores if s.target == source]
        return max(self._inside(a).high for a in addresses) + 1

    def _inside(self, address: Affine) -> Affine:
        """The part of an address that an iteration of the outer loops sees."""
        return Affine(address.const, tuple(t for t in address.terms if t[0] not in self.nest.outer))

    def _inner_stage(self, elements: Elements, stage: Stage) -> None:
        folds = folds_of(stage)
        if not folds:
            loops, gone = merged([stage], ordered(stage, stage.vars))
            _bind(elements, gone)
            if not loops:
                self._stores(elements, stage.stores)
                return
            with elements.loops(loops[:-1]):
                self._along(elements, stage, loops[-1], I64(0), I64(loops[-1].size))
            return
        inner = Stage([*stage.vars, *folds[0].vars], stage.stores)
        if self._along_kept(inner, stage.vars, folds):
            *others, best = ordered(inner, stage.vars)
            with elements.loops(others):
                if best.size <= 4 * BLOCK:
                    self._vertical(elements, stage, folds, best, I64(0), I64(best.size), best.size)
                else:
                    with loop(elements.b, 0, best.size, BLOCK) as first, elements.scope():
                        count = least(elements.b, elements.b.sub(I64(best.size), first), I64(BLOCK))
                        self._vertical(elements, stage, folds, best, first, count)
        else:
            with elements.loops(ordered(inner, stage.vars)):
                self._horizontal(elements, inner, stage, folds)

    # -- folds
    def _along_kept(self, inner: Stage, kept: Sequence[Var], folds: list[Fold]) -> bool:
        wide = [v for v in kept if v.size >= 8]
        if not wide:
            return False
        reduced = [v for v in folds[0].vars if v.size >= 8]
        best_kept = max(stride_score(inner, v) for v in wide)
        return not reduced or best_kept > max(stride_score(inner, v) for v in reduced)

    def _vertical(
        self,
        elements: Elements,
        stage: Stage,
        folds: list[Fold],
        best: Var,
        first: ir.Value,
        count: ir.Value,
        most: int = BLOCK,
    ) -> None:
        """Lanes are neighbouring results: each step takes a piece of a row into all of them."""
        b = elements.b
        state = {id(f): [Accumulator(b, i.dtype, f.plain, most) for i in f.inits] for f in folds}

        @contextmanager
        def lanes() -> Iterator[ir.Value]:
            with loop(b, 0, count, name="lane") as lane, elements.scope():
                elements.vars[best] = b.add(first, lane, flags=["nsw"])
                yield lane

        def start(state: Mapping[int, Sequence[Accumulator]], values: Callable[[Fold], Sequence[types.Value]]) -> None:
            with lanes() as lane:
                for fold in folds:
                    for accumulator, value in zip(state[id(fold)], values(fold), strict=True):
                        accumulator.set(value, lane)

        def steps(state: Mapping[int, Sequence[Accumulator]], loops: Sequence[Var]) -> None:
            with elements.loops(loops), lanes() as lane:
                for fold in folds:
                    elements.step(fold, [_Lane(a, lane) for a in state[id(fold)]])

        start(state, lambda fold: [elements.value(i) for i in fold.inits])
        step_stage = Stage([*folds[0].vars], stage.stores)
        loops, gone = merged([step_stage], ordered(step_stage, folds[0].vars))
        _bind(elements, gone)
        if loops and all(map(_is_float_sum, folds)) and math.prod(v.size for v in loops) > 2 * RUN:
            # sums of sums: the error grows with the length of a run and their number, not with all of it
            part = {id(f): [Accumulator(b, i.dtype, f.plain, most) for i in f.inits] for f in folds}
            *outer, last = loops
            with (
                elements.loops(outer),
                loop(b, 0, last.size, RUN, name="run", hints=VECTOR_ONLY) as begin,
                elements.scope(),
            ):
                start(part, lambda fold: [types.constant(0, i.dtype) for i in fold.inits])
                with loop(
                    b, begin, least(b, b.add(begin, I64(RUN)), I64(last.size)), name=last.name, hints=VECTOR_ONLY
                ) as at:
                    elements.vars[last] = at
                    with elements.scope():
                        steps(part, [])
                with lanes() as lane:
                    for fold in folds:
                        values = [a.get(lane) for a in part[id(fold)]]
                        elements.combine(fold, [_Lane(a, lane) for a in state[id(fold)]], values)
        else:
            steps(state, loops)
        with lanes() as lane:
            self._results(elements, stage, state, lane)

    def _horizontal(self, elements: Elements, inner: Stage, stage: Stage, folds: list[Fold]) -> None:
        """One result at a time, along the loops that are folded."""
        loops, gone = merged([inner], ordered(inner, folds[0].vars))
        _bind(elements, gone)
        if all(map(_vectorises, folds)) or not loops or loops[-1].size < 2 * LANES:
            state = self._start(elements, folds)
            with elements.loops(loops):
                for fold in folds:
                    elements.step(fold, state[id(fold)])
        else:
            state = self._in_lanes(elements, folds, loops)
        self._results(elements, stage, state, None)

    def _start(self, elements: Elements, folds: list[Fold]) -> dict[int, list[Accumulator]]:
        state = {id(f): [Accumulator(elements.b, i.dtype, f.plain) for i in f.inits] for f in folds}
        for fold in folds:
            for accumulator, init in zip(state[id(fold)], fold.inits, strict=True):
                accumulator.set(elements.value(init))
        return state

    def _in_lanes(self, elements: Elements, folds: list[Fold], loops: list[Var]) -> dict[int, list[Accumulator]]:
        """Any computation in vector lanes: each starts from the initial value, and in the end they are folded."""
        b = elements.b
        *outer, inner = loops
        lanes = {id(f): [Accumulator(b, i.dtype, f.plain, LANES) for i in f.inits] for f in folds}
        with loop(b, 0, LANES, name="lane") as lane, elements.scope():
            for fold in folds:
                for accumulator, init in zip(lanes[id(fold)], fold.inits, strict=True):
                    accumulator.set(elements.value(init), lane)
        whole = inner.size // LANES * LANES
        state = self._start(elements, folds)
        with elements.loops(outer):
            with (
                loop(b, 0, whole, LANES, name=inner.name) as base,
                loop(b, 0, LANES, name="lane") as lane,
                elements.scope(),
            ):
                elements.vars[inner] = b.add(base, lane, flags=["nsw"])
                for fold in folds:
                    elements.step(fold, [_Lane(a, lane) for a in lanes[id(fold)]])
            if whole < inner.size:
                with loop(b, whole, inner.size, name=inner.name) as rest, elements.scope():
                    elements.vars[inner] = rest
                    for fold in folds:
                        elements.step(fold, state[id(fold)])
        with loop(b, 0, LANES, name="lane") as lane:
            for fold in folds:
                values = [a.get(lane) for a in lanes[id(fold)]]
                elements.combine(fold, state[id(fold)], values)
        return state

    def _whole(self, inner: Stage, stage: Stage, folds: list[Fold], cost: int) -> None:
        """A fold to a single value: pieces of the outermost loop side by side, then the pieces."""
        loops, gone = merged([inner], ordered(inner, folds[0].vars))
        split, rest = loops[0], loops[1:]
        parts = min(PARTS, split.size)
        numbers = {}
        for fold in folds:
            for k, init in enumerate(fold.inits):
                width = 16 if init.dtype.is_complex else 8
                self.scratch.append(width * parts)
                numbers[id(fold), k] = self.pointer_count + len(self.scratch) - 1
        part = Var("part", parts, None, -1)
        extent = math.prod(v.size for v in loops) // parts
        with self._phase([part], cost * extent) as elements:
            _bind(elements, gone)
            b = elements.b
            state = self._start(elements, folds)
            at = elements.vars[part]
            begin = b.udiv(b.mul(at, I64(split.size)), I64(parts))
            end = b.udiv(b.mul(b.add(at, I64(1)), I64(split.size)), I64(parts))
            with loop(b, begin, end, name=split.name) as i, elements.scope():
                elements.vars[split] = i
                with elements.loops(rest):
                    for fold in folds:
                        elements.step(fold, state[id(fold)])
            for fold in folds:
                for k, accumulator in enumerate(state[id(fold)]):
                    _put(b, self._scratch_pointers[numbers[id(fold), k]], at, accumulator)
        with self._phase([], 0) as elements:
            b = elements.b
            state = self._start(elements, folds)
            with loop(b, 0, parts, name="part") as at, elements.scope():
                for fold in folds:
                    values = [
                        _take(b, self._scratch_pointers[numbers[id(fold), k]], at, a)
                        for k, a in enumerate(state[id(fold)])
                    ]
                    elements.combine(fold, state[id(fold)], values)
            self._results(elements, stage, state, None)

    def _results(
        self, elements: Elements, stage: Stage, state: Mapping[int, Sequence[Accumulator]], lane: ir.Value | None
    ) -> None:
        for store in stage.stores:
            value = state[id(store.node.fold)][store.node.number].result(lane)  # type: ignore[attr-defined]
            self._store(elements, store, value)

    # -- stores
    def _stores(self, elements: Elements, stores: Sequence[Store]) -> None:
        values = [elements.value(store.node) for store in stores]
        for store, value in zip(stores, values, strict=True):
            self._store(elements, store, value)

    def _store(self, elements: Elements, store: Store, value: types.Value) -> None:
        address = self._address(store.target, store.address)
        types.store(
            elements.b, self._pointers[store.target], self.types_of(store.target), elements.index(address), value
        )

    def _address(self, source: Source, address: Affine) -> Affine:
        return self._inside(address) if source in self.nest.private else address

    # -- functions
    @contextmanager
    def _phase(self, outer: Sequence[Var], cost: int, *, open_ended: bool = False) -> Iterator[Elements]:
        """A phase over the items that the loops `outer` make; yields where one item is emitted.

        The work is in a function of its own whose pointers are known to be distinct. With `open_ended`, the loop over
        the items is left to the caller, from `elements.bounds`.
        """
        symbol = f"{self.name}.{len(self.phases)}"
        count = math.prod(v.size for v in outer)
        total = self.pointer_count + len(self.scratch)
        body = ir.Function(self.module, ir.FunctionType(VOID, [*[POINTER] * total, I64, I64]), f"{symbol}.body")
        body.linkage = "internal"
        body.attributes.add("alwaysinline")
        body.attributes.add("nounwind")
        for argument in body.args[:total]:
            argument.add_attribute("noalias")
        b = ir.IRBuilder(body.append_basic_block("entry"))
        start = body.append_basic_block("start")
        b.position_at_end(start)
        self._pointers = {source: body.args[n] for source, n in self.numbers.items()}
        self._scratch_pointers = list(body.args[:total])
        elements = Elements(b, lambda source: self._pointers[source], self._address)
        begin, end = body.args[total], body.args[total + 1]
        with ExitStack() as stack:
            elements.bounds = begin, end
            if open_ended:
                pass
            elif len(outer) == 1:
                elements.vars[outer[0]] = stack.enter_context(loop(b, begin, end, name=outer[0].name))
            elif outer:
                item = stack.enter_context(loop(b, begin, end, name="item"))
                for var in reversed(outer[1:]):
                    elements.vars[var] = b.urem(item, I64(var.size))
                    item = b.udiv(item, I64(var.size))
                elements.vars[outer[0]] = item
            yield elements
        b.ret_void()
        b.position_at_end(body.entry_basic_block)
        b.branch(start)
        self._wrapper(symbol, body, total)
        grain = max(1, TASK_COST // max(cost, 1))
        self.phases.append(Phase(symbol, max(count, 0) if outer else 1, grain, tuple(v.name for v in outer)))

    def _wrapper(self, symbol: str, body: ir.Function, total: int) -> None:
        function = ir.Function(self.module, TASK, symbol)
        function.attributes.add("nounwind")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        buffers, begin, end = function.args
        pointers = [
            b.load(b.gep(buffers, [I64(k)], inbounds=True, source_etype=POINTER), typ=POINTER) for k in range(total)
        ]
        b.call(body, [*pointers, begin, end])
        b.ret_void()


class _Lane:
    """One lane of an accumulator, used like an accumulator."""

    def __init__(self, accumulator: Accumulator, lane: ir.Value):
        self._accumulator = accumulator
        self._lane = lane

    def get(self) -> types.Value:
        """The lane's value."""
        return self._accumulator.get(self._lane)

    def set(self, value: types.Value) -> None:
        """Puts a value."""
        self._accumulator.set(value, self._lane)


def nest_cost(nest: Nest) -> int:
    """About how many additions all of a nest costs."""
    return math.prod(v.size for v in nest.outer) * sum(map(_stage_cost, nest.stages))


def _stage_cost(stage: Stage) -> int:
    folds = folds_of(stage)
    extent = math.prod(v.size for v in stage.vars) * (math.prod(v.size for v in folds[0].vars) if folds else 1)
    nodes = [e for f in folds for e in f.elements] if folds else [s.node for s in stage.stores]
    return cost_of(nodes) * extent


def least(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The lesser of two sizes."""
    return intrinsic(b, "smin", x, y)


def _bind(elements: Elements, gone: Mapping[Var, None]) -> None:
    # joined loops count in their inner variable; the outer one adds nothing
    for var in gone:
        elements.vars.pop(var, None)


def _vectorises(fold: Fold) -> bool:
    """True when LLVM turns the scalar loop into vector code."""
    dtype = fold.inits[0].dtype
    if fold.plain in ("maximum", "minimum"):
        return dtype.is_float or (dtype.is_integer and dtype.bits >= 8)
    if fold.plain in REASSOCIATED:
        return dtype.is_float or (dtype.is_integer and dtype.bits >= 8)
    exact = dtype.kind is Kind.PRED or (dtype.is_integer and dtype.bits >= 8)
    return exact and fold.plain in ("and", "or", "xor")


def _is_float_sum(fold: Fold) -> bool:
    return fold.plain == "add" and not fold.inits[0].dtype.is_integer and fold.inits[0].dtype.kind is not Kind.PRED


def _put(b: ir.IRBuilder, pointer: ir.Value, at: ir.Value, accumulator: Accumulator) -> None:
    value = accumulator.get()
    dtype = accumulator.stored
    types.store(b, pointer, dtype, at, value)


def _take(b: ir.IRBuilder, pointer: ir.Value, at: ir.Value, accumulator: Accumulator) -> types.Value:
    return types.load(b, pointer, accumulator.stored, at)
