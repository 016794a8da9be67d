"""Reductions: of what lies together by warps or blocks, of what lies across by columns of threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from xloom.codegen.emission.accumulators import representation_of
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, arranged, stride_score
from xloom.codegen.loop_ir.nodes import If, Reduction, operands_of, walk
from xloom.cuda.kernel import THREADS, WARP, blocks_for, strided
from xloom.cuda.loops.map_kernel import vector_width
from xloom.cuda.loops.nest_code import NestCode
from xloom.cuda.loops.results_of_reductions import ReducedStage
from xloom.cuda.loops.thread_reduction import (
    BlockReduction,
    SharedStates,
    States,
    combine_lanes,
    combine_states,
    started,
    values_of,
)
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I64

SHORT = 8
"""Elements of a result that one thread takes."""
OF_A_WARP = 1024
"""Elements of a result that a warp takes, at most; for more there is a block."""
OF_A_BLOCK = 1 << 12
"""Elements that a block takes, at least, where there are too few results for all multiprocessors."""
FEW_RESULTS = 128
"""Blocks that keep all multiprocessors busy."""
_FEW_COLUMNS = 512
"""The same of columns: threads load single elements there, of which there are fewer bytes on their way at once."""
_SHORT_COLUMN, _MANY_COLUMNS = 64, 1 << 16
"""Elements of a column that one thread takes, where there are so many that these keep all multiprocessors busy."""
_LEAST_COLUMNS = 4
"""Of which neighbours are loaded by neighbouring threads."""
_FEW_PARTS = 8
"""That a thread puts together by itself."""
MOST_PARTS = 256
_MOST_STATE = 160
"""Bytes of a thread's accumulators that shared memory has room for, of all threads of a block."""


@dataclass(frozen=True)
class ReductionPlan:
    """How the reductions of a stage are done."""

    kind: str
    """thread: a thread a result; warp, block: along rows; columns: a thread a column of some rows."""
    results: list[Var]
    reduced: list[Var]
    gone: tuple[Var, ...]
    """Loops that are a part of another one."""
    width: int = 1
    """Lanes for each result of a warp; or columns side by side."""
    each: int = 1
    """Neighbours that a thread takes at once."""
    parts: int = 1
    """Blocks for each result, or each group of columns, whose parts another kernel puts together."""

    @property
    def count(self) -> int:
        """How many results there are."""
        return math.prod(v.size for v in self.results)

    @property
    def extent(self) -> int:
        """Elements of each result."""
        return math.prod(v.size for v in self.reduced)

    @property
    def items(self) -> int:
        """What threads take of each result, one after another."""
        return self.extent // self.each


def reduction_plan(stage: LoopBody, reductions: Sequence[Reduction]) -> ReductionPlan:
    """Chooses by which loop lies innermost in memory, and by how many results and elements there are."""
    every = LoopBody([*stage.vars, *reductions[0].vars], stage.stores)
    results, gone_results = arranged(every, stage.vars)
    reduced, gone_reduced = arranged(every, reductions[0].vars)
    gone = (*gone_results, *gone_reduced)
    count, extent = math.prod(v.size for v in results), math.prod(v.size for v in reduced)
    if extent <= SHORT or count == 0 or extent == 0 or not all(map(_is_divisible, reductions)):
        return ReductionPlan("thread", results, reduced, gone)
    along = max((stride_score(every, v) for v in reduced), default=0)
    across = max((stride_score(every, v) for v in results), default=-1 << 30)
    nbytes = sum(representation_of(f, k).kept.bytes for f in reductions for k in range(len(f.inits)))
    is_short = extent <= _SHORT_COLUMN and count >= _MANY_COLUMNS
    if across > along and count >= WARP and (nbytes > _MOST_STATE or is_short):
        return ReductionPlan("thread", results, reduced, gone)
    if across > along and count >= _LEAST_COLUMNS and nbytes <= _MOST_STATE:
        width = min(WARP, 1 << (count - 1).bit_length())
        parts = _parts(extent, -(-count // width), THREADS // width * 64, _FEW_COLUMNS)
        return ReductionPlan("columns", results, reduced, gone, width=width, parts=parts)
    each = neighbours(reductions, reduced)
    if extent <= OF_A_WARP:
        width = min(WARP, 1 << max(1, (extent // each - 1).bit_length() - 1))
        return ReductionPlan("warp", results, reduced, gone, width=width, each=each)
    return ReductionPlan("block", results, reduced, gone, each=each, parts=_parts(extent, count, OF_A_BLOCK))


def neighbours(reductions: Sequence[Reduction], loops: Sequence[Var]) -> int:
    """How many elements along the innermost of the reduced loops a thread takes at once."""
    nodes = walk([node for reduction in reductions for node in reduction.elements])
    return vector_width(nodes, loops[-1]) if loops else 1


def _is_divisible(reduction: Reduction) -> bool:
    """Whether parts can be put together by what takes an element: not where that depends on which element it is."""
    elements = set(map(id, reduction.elements))
    stack, seen = list(reduction.bodies), set()
    while stack:
        node = stack.pop()
        if id(node) in elements or id(node) in seen:
            continue
        if isinstance(node, If):
            return False
        seen.add(id(node))
        stack.extend(operands_of(node))
    return True


def _parts(extent: int, groups: int, least: int, few: int = FEW_RESULTS) -> int:
    if groups >= few or extent < 2 * least:
        return 1
    return min(MOST_PARTS, extent // least, -(-few // groups))


class ReductionKernels:
    """Emits the kernels of a stage of reductions that a whole grid shares."""

    def __init__(self, stage: LoopBody, reduced: ReducedStage):
        self.stage, self.reductions = stage, reduced.reductions
        self.plan = reduction_plan(*reduced)

    @property
    def threads(self) -> int:
        """In a block."""
        return THREADS

    @property
    def blocks(self) -> int:
        """Of the first kernel."""
        plan = self.plan
        if plan.kind == "block":
            return blocks_for(plan.count * plan.parts, 1)
        if plan.kind == "columns":
            return blocks_for(-(-plan.count // plan.width) * plan.parts, 1)
        return blocks_for(-(-plan.count * plan.width // WARP), THREADS // WARP)

    @property
    def scratch_sizes(self) -> list[int]:
        """Bytes for each part of a state of the parts, if there are several."""
        if self.plan.parts == 1:
            return []
        kept = [representation_of(f, k).kept.bytes for f in self.reductions for k in range(len(f.inits))]
        return [size * self.plan.count * self.plan.parts for size in kept]

    def emit(self, code: NestCode, scratch: Sequence[ir.Value] = ()) -> None:
        """The first kernel, which leaves the states of parts in scratch memory, if there are several."""
        code.elements.unbind(self.plan.gone)
        {"warp": self._warps, "block": self._blocks, "columns": self._columns}[self.plan.kind](code, scratch)

    def emit_join(self, code: NestCode, scratch: Sequence[ir.Value]) -> None:
        """The second kernel, which puts parts together: a thread a result, or the lanes of a warp."""
        plan, elements, b, kernel = self.plan, code.elements, code.kernel.b, code.kernel
        kernel.strategy = f"puts {plan.parts} parts of each of {plan.count} results together"
        elements.unbind(plan.gone)
        width = self._join_lanes
        with self._each_result(code, width, self.join_blocks) as (row, safe, lane):
            states = started(elements, self.reductions)
            memory = SharedStates(kernel, self.reductions, states, scratch)
            first = b.mul(safe, I64(plan.parts), flags=["nsw"])
            with strided(b, lane, I64(plan.parts), width) as part, elements.scope():
                combine_states(elements, self.reductions, states, memory.read(b.add(first, part)))
            if width > 1:
                combine_lanes(kernel, elements, self.reductions, states, width)
            with b.if_then(self._is_result(b, row, lane, width)):
                self._finish(code, safe, states)

    @property
    def _join_lanes(self) -> int:
        return WARP if self.plan.parts > _FEW_PARTS else 1

    @property
    def join_blocks(self) -> int:
        """Of the second kernel."""
        return blocks_for(self.plan.count * self._join_lanes, THREADS)

    @contextmanager
    def _each_result(self, code: NestCode, width: int, blocks: int) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
        """Each `width` lanes' result, one that there is in any case, and the lane: those beyond do the last one's."""
        plan, kernel, b = self.plan, code.kernel, code.kernel.b
        per_block = kernel.threads // width
        with kernel.each_row(plan.count, blocks, per_block) as first:
            row = b.add(first, b.udiv(kernel.thread, I64(width)), flags=["nsw"])
            safe = row if plan.count % per_block == 0 else intrinsic(b, "smin", row, I64(plan.count - 1))
            yield row, safe, b.and_(kernel.thread, I64(width - 1))

    def _is_result(self, b: ir.IRBuilder, row: ir.Value, lane: ir.Value, width: int) -> ir.Value:
        """Whether a lane has a result to store."""
        is_first = b.icmp_signed("==", lane, I64(0))
        if self.plan.count % (THREADS // width) == 0:
            return is_first
        return b.and_(is_first, b.icmp_signed("<=", row, I64(self.plan.count - 1)))

    # -- by rows
    def _warps(self, code: NestCode, scratch: Sequence[ir.Value]) -> None:
        plan, kernel, b, elements = self.plan, code.kernel, code.kernel.b, code.elements
        kernel.strategy = f"{plan.width} lanes for each of {plan.count} results of {plan.extent} elements"
        with self._each_result(code, plan.width, self.blocks) as (row, safe, lane):
            with code.at(plan.results, safe, plan.count):
                states = self._accumulated(code, lane, plan.width, plan.items)
                combine_lanes(kernel, elements, self.reductions, states, plan.width)
            with b.if_then(self._is_result(b, row, lane, plan.width)):
                self._finish(code, safe, states)

    def _blocks(self, code: NestCode, scratch: Sequence[ir.Value]) -> None:
        plan, kernel, b = self.plan, code.kernel, code.kernel.b
        kernel.strategy = f"{plan.parts} blocks for each of {plan.count} results of {plan.extent} elements"
        total = plan.count * plan.parts
        with kernel.each_row(total, self.blocks) as item:
            row, part = (b.udiv(item, I64(plan.parts)), b.urem(item, I64(plan.parts)))
            begin, end = _part(b, part, plan.items, plan.parts)
            with code.at(plan.results, row, plan.count):
                states = self._accumulated(code, b.add(begin, kernel.thread), kernel.threads, end)
                reduction = BlockReduction(kernel, code.elements, self.reductions, states)
                reduction.emit(states, is_repeated=total > self.blocks)
            with b.if_then(b.icmp_signed("==", kernel.thread, I64(0))):
                self._leave(code, row, item, states, scratch)

    # -- by columns
    def _columns(self, code: NestCode, scratch: Sequence[ir.Value]) -> None:
        plan, kernel, b, elements = self.plan, code.kernel, code.kernel.b, code.elements
        width, rows = plan.width, kernel.threads // plan.width
        groups = -(-plan.count // width)
        lane, line = b.and_(kernel.thread, I64(width - 1)), b.udiv(kernel.thread, I64(width))
        kernel.strategy = (
            f"{rows} threads for each of {plan.count} columns of {plan.extent} elements, in {plan.parts} parts"
        )
        with kernel.each_row(groups * plan.parts, self.blocks) as item:
            group, part = b.udiv(item, I64(plan.parts)), b.urem(item, I64(plan.parts))
            column = b.add(b.mul(group, I64(width)), lane, flags=["nsw"])
            last = I64(plan.count - 1)
            safe = column if plan.count % width == 0 else intrinsic(b, "smin", column, last)
            begin, end = _part(b, part, plan.extent, plan.parts)
            with code.at(plan.results, safe, plan.count):
                states = self._accumulated(code, b.add(begin, line), rows, end)
                memory = SharedStates.in_shared_memory(kernel, self.reductions, states, kernel.threads)
                memory.write(states, kernel.thread)
                kernel.barrier()
                is_first = b.icmp_signed("==", line, I64(0))
                with b.if_then(is_first), elements.scope():
                    for row in range(1, rows):
                        others = memory.read(b.add(lane, I64(row * width)))
                        combine_states(elements, self.reductions, states, others)
                if groups * plan.parts > self.blocks:
                    kernel.barrier()
            if safe is not column:
                is_first = b.and_(is_first, b.icmp_signed("<=", column, last))
            with b.if_then(is_first):
                place = b.add(b.mul(safe, I64(plan.parts)), part)
                self._leave(code, safe, place, states, scratch)

    # -- elements and results
    def _accumulated(self, code: NestCode, first: ir.Value, step: int, end: ir.Value | int) -> States:
        """The states of this thread after the items `first`, `first + step`, ... before `end`."""
        return accumulated(code, self.reductions, self.plan.reduced, first, step, end, self.plan.each)

    def _leave(
        self, code: NestCode, row: ir.Value, place: ir.Value, states: States, scratch: Sequence[ir.Value]
    ) -> None:
        """Stores a result, or the state of one of its parts."""
        if scratch:
            SharedStates(code.kernel, self.reductions, states, scratch).write(states, place)
        else:
            self._finish(code, row, states)

    def _finish(self, code: NestCode, row: ir.Value, states: States) -> None:
        """Stores a result: the initial values, and what all threads have got."""
        with code.elements.scope():
            final = started(code.elements, self.reductions, identity=False)
            combine_states(code.elements, self.reductions, final, values_of(states))
            self._store(code, row, final)

    def _store(self, code: NestCode, row: ir.Value, states: States) -> None:
        with code.at(self.plan.results, row, self.plan.count):
            store_results(code, self.stage, states)


def accumulated(
    code: NestCode,
    reductions: Sequence[Reduction],
    loops: Sequence[Var],
    first: ir.Value,
    step: int,
    end: ir.Value | int,
    each: int = 1,
) -> States:
    """The states of a thread after the items `first`, `first + step`, ... before `end` of the reduced loops.

    An item has `each` neighbours along the innermost one.
    """
    states, b = started(code.elements, reductions), code.kernel.b
    last = I64(end) if isinstance(end, int) else end
    groups, inner = list(loops), loops[-1] if loops else None
    if inner is not None and each > 1:
        groups[-1] = Var(inner.name, inner.size // each, None, inner.number)
    total = math.prod(v.size for v in groups)
    with strided(b, first, last, step) as item, code.at(groups, item, total):
        base = b.mul(code.elements.vars[inner], I64(each), flags=["nsw", "nuw"]) if inner is not None else None
        for k in range(each):
            if inner is not None and base is not None:
                code.elements.vars[inner] = b.add(base, I64(k), flags=["nsw", "nuw"])
            with code.elements.scope():
                for reduction in reductions:
                    code.elements.accumulate(reduction, states[id(reduction)])
    return states


def store_results(code: NestCode, stage: LoopBody, states: States) -> None:
    """Stores what a stage makes of what accumulators have got."""
    results = {key: [accumulator.result() for accumulator in state] for key, state in states.items()}
    with code.elements.known(results):
        for store, value in zip(stage.stores, code.values(stage.stores), strict=True):
            code.store(store, value)


def _part(b: ir.IRBuilder, part: ir.Value, extent: int, parts: int) -> tuple[ir.Value, ir.Value]:
    """Where a part of `extent` elements begins and ends: all are as long, but for the last."""
    if parts == 1:
        return I64(0), I64(extent)
    length = -(-extent // parts)
    begin = b.mul(part, I64(length), flags=["nsw"])
    return begin, intrinsic(b, "smin", b.add(begin, I64(length), flags=["nsw"]), I64(extent))
