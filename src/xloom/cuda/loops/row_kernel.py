"""Stages one after another for each row: a block does a row, and what only lives within it is in shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, arranged, merged, ordered, reductions_of
from xloom.codegen.loop_ir.nodes import Reduction
from xloom.cuda.kernel import SHARED_BYTES, THREADS, WARP, blocks_for, strided
from xloom.cuda.loops.map_kernel import emit_items, map_width
from xloom.cuda.loops.nest_code import NestCode
from xloom.cuda.loops.reduction_kernel import FEW_RESULTS, SHORT, accumulated, neighbours, store_results
from xloom.cuda.loops.thread_reduction import BlockReduction, combine_states, started, values_of
from xloom.llvm.types import I8, I64

_LONG = 1 << 14
"""Elements of a row that are too many for a block, where there are too few rows for all multiprocessors."""
_FOR_REDUCTIONS = 8 << 10
"""Shared memory that is left for reductions."""


class RowKernel:
    """Emits a nest with outer loops, each iteration of which is a row."""

    def __init__(self, nest: LoopNest, code_bytes: Sequence[tuple[BufferValue, int]]):
        """`code_bytes` are the arrays that live within a row, and their bytes."""
        self.nest = nest
        self._private = code_bytes
        self._outer, self._gone = merged(nest.stages, list(nest.outer))
        self.rows = math.prod(v.size for v in self._outer)
        self.longest = max(_extent(stage) for stage in nest.stages)
        """Iterations of a stage, for a row."""
        self.threads = self._threads()
        self.blocks = blocks_for(self.rows, 1)
        used, self._in_scratch = _FOR_REDUCTIONS, []
        for value, nbytes in code_bytes:
            if used + nbytes > SHARED_BYTES:
                self._in_scratch.append((value, -(-nbytes // 64) * 64))
            else:
                used += nbytes

    @property
    def is_lopsided(self) -> bool:
        """Whether a few blocks would have all to do, for long."""
        return self.rows < FEW_RESULTS and self.longest >= _LONG

    @property
    def scratch_sizes(self) -> list[int]:
        """Bytes of memory for arrays that shared memory has no room for, of all blocks."""
        return [nbytes * self.blocks for _, nbytes in self._in_scratch]

    def emit(self, code: NestCode, scratch: Sequence[ir.Value]) -> None:
        """Emits the kernel; `scratch` are the pointers to what `scratch_sizes` says."""
        kernel, b = code.kernel, code.kernel.b
        kernel.strategy = f"a block for each of {self.rows} rows, in {len(self.nest.stages)} stages"
        in_scratch = {
            value: (pointer, nbytes) for (value, nbytes), pointer in zip(self._in_scratch, scratch, strict=True)
        }
        for value, nbytes in self._private:
            if value in in_scratch:
                pointer, size = in_scratch[value]
                offset = b.mul(kernel.block, I64(size), flags=["nsw"])
                code.pointers[value] = b.gep(pointer, [offset], inbounds=True, source_etype=I8)
            else:
                code.pointers[value] = kernel.shared(max(1, nbytes))
        code.elements.unbind(self._gone)
        with kernel.each_row(self.rows, self.blocks) as row, code.at(self._outer, row, self.rows):
            for number, stage in enumerate(self.nest.stages, 1):
                with code.elements.scope():
                    self._stage(code, stage)
                if number < len(self.nest.stages) or self.rows > self.blocks:
                    kernel.barrier()

    def _threads(self) -> int:
        """A warp for short rows, and more for longer ones."""
        return min(THREADS, max(WARP, 1 << max(0, (self.longest // 4 - 1)).bit_length()))

    def _stage(self, code: NestCode, stage: LoopBody) -> None:
        kernel = code.kernel
        reductions = reductions_of(stage)
        if reductions:
            self._reduction(code, stage, reductions)
            return
        loops, gone = arranged(stage, stage.vars)
        code.elements.unbind(gone)
        width = map_width(stage, loops, kernel.threads // 2)
        total = math.prod(v.size for v in loops) // width
        with strided(kernel.b, kernel.thread, I64(total), kernel.threads) as item:
            emit_items(code, stage, loops, width, item)

    def _reduction(self, code: NestCode, stage: LoopBody, reductions: Sequence[Reduction]) -> None:
        kernel, b = code.kernel, code.kernel.b
        every = LoopBody([*stage.vars, *reductions[0].vars], stage.stores)
        results = ordered(every, stage.vars)
        reduced, gone = arranged(every, reductions[0].vars)
        code.elements.unbind(gone)
        count, extent = (math.prod(v.size for v in loops) for loops in (results, reduced))
        if count >= kernel.threads or extent <= SHORT:
            with strided(b, kernel.thread, I64(count), kernel.threads) as item, code.at(results, item, count):
                states = accumulated(code, reductions, reduced, I64(0), 1, extent)
                _finish(code, stage, reductions, states)
            return
        with strided(b, I64(0), I64(count), 1) as item, code.at(results, item, count):
            each = neighbours(reductions, reduced)
            states = accumulated(code, reductions, reduced, kernel.thread, kernel.threads, extent // each, each)
            BlockReduction(kernel, code.elements, reductions, states).emit(states, is_repeated=count > 1)
            with b.if_then(b.icmp_signed("==", kernel.thread, I64(0))), code.elements.scope():
                _finish(code, stage, reductions, states)


def _finish(code: NestCode, stage: LoopBody, reductions: Sequence[Reduction], states) -> None:
    """Stores a result: the initial values, and what has been accumulated."""
    final = started(code.elements, reductions, identity=False)
    combine_states(code.elements, reductions, final, values_of(states))
    store_results(code, stage, final)


def _extent(stage: LoopBody) -> int:
    """The iterations of a stage."""
    loops: list[Var] = [*stage.vars, *(v for f in reductions_of(stage)[:1] for v in f.vars)]
    return math.prod(v.size for v in loops)
