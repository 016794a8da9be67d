"""Loop nests to launches: which kernels do a nest, on which grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, dtype_of, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, loaded_values
from xloom.cuda.kernel import THREADS, DeviceKernel, KernelBuilder
from xloom.cuda.loops.map_kernel import emit_map, map_blocks
from xloom.cuda.loops.nest_code import NestCode
from xloom.cuda.loops.reduction_kernel import ReductionKernels
from xloom.cuda.loops.results_of_reductions import reduced_stage
from xloom.cuda.loops.row_kernel import RowKernel
from xloom.cuda.loops.transpose_kernel import crossing_of, emit_transpose, transpose_blocks
from xloom.hlo.dtype import bf16, f16
from xloom.llvm.target import Target

Made = tuple[DeviceKernel, int, tuple[BufferAllocation, ...]]
"""A kernel, its blocks, and what its pointers are of."""


class NestLowering:
    """Makes the kernels of a nest whose values have allocations; `scratch` gives memory for it alone.

    Reductions are shared among threads, unless their elements have to come `in_order`.
    """

    def __init__(
        self,
        target: Target,
        nest: LoopNest,
        allocation_of: Callable[[BufferValue], BufferAllocation],
        scratch: Callable[[int], BufferAllocation],
        in_order: bool = False,
    ):
        self._target, self._nest, self._scratch, self._in_order = target, nest, scratch, in_order
        self._allocation_of = allocation_of
        found = [*loaded_values(nest), *(s.target for stage in nest.stages for s in stage.stores)]
        self._arguments: dict[BufferAllocation, int] = {}
        self._numbers: dict[BufferValue, int] = {}
        for value in found:
            if value not in nest.private:
                number = self._arguments.setdefault(allocation_of(value), len(self._arguments))
                self._numbers[value] = number

    def made(self) -> list[Made]:
        """The kernels in order, with their grids."""
        nest = self._nest
        if not nest.stages or any(v.size == 0 for stage in nest.stages for v in (*nest.outer, *stage.vars)):
            return []
        if nest.outer:
            return self._rows()
        (stage,) = nest.stages
        if not self._in_order and (reduced := reduced_stage(stage)):
            kernels = ReductionKernels(stage, reduced)
            if kernels.plan.kind != "thread":
                return self._reduction(kernels)
        if crossing := crossing_of(stage):
            emit = lambda code, _: emit_transpose(code, stage, crossing)  # noqa: E731
            return [self._kernel(emit, transpose_blocks(crossing))]
        return [self._kernel(lambda code, _: emit_map(code, stage), map_blocks(stage, THREADS))]

    def _rows(self) -> list[Made]:
        kernel = RowKernel(self._nest, self._private_bytes())
        if kernel.is_lopsided:
            return self._by_stages()
        memory = [self._scratch(size) for size in kernel.scratch_sizes]
        return [self._kernel(kernel.emit, kernel.blocks, memory, kernel.threads)]

    def _by_stages(self) -> list[Made]:
        """The stages of few long rows, each of which all blocks share; what is in between is in memory."""
        nest, made = self._nest, []
        private = {v: self._scratch(leaf_shapes(v[0].shape)[v[1]].nbytes) for v, _ in self._private_bytes()}
        for stage in nest.stages:
            alone = LoopNest([], [LoopBody([*nest.outer, *stage.vars], stage.stores)])
            place = lambda value: private.get(value) or self._allocation_of(value)  # noqa: E731
            made += NestLowering(self._target, alone, place, self._scratch).made()
        return made

    def _reduction(self, kernels: ReductionKernels) -> list[Made]:
        memory = [self._scratch(size) for size in kernels.scratch_sizes]
        made = [self._kernel(kernels.emit, kernels.blocks, memory)]
        if memory:
            made.append(self._kernel(kernels.emit_join, kernels.join_blocks, memory))
        return made

    def _kernel(
        self,
        emit: Callable[[NestCode, Sequence[ir.Value]], None],
        blocks: int,
        memory: Sequence[BufferAllocation] = (),
        threads: int = THREADS,
    ) -> Made:
        arguments = (*self._arguments, *memory)
        builder = KernelBuilder(self._target, len(arguments), threads)
        emit(NestCode(builder, self._nest, self._numbers), builder.pointers[len(self._arguments) :])
        return builder.finished(), blocks, arguments

    def _private_bytes(self) -> list[tuple[BufferValue, int]]:
        """The arrays that live within a row, and their bytes."""
        nest = self._nest
        out = []
        for value in dict.fromkeys(s.target for g in nest.stages for s in g.stores if s.target in nest.private):
            inside = [
                sum(f * (v.size - 1) for v, f in s.address.terms if v not in nest.outer) + s.address.const
                for g in nest.stages
                for s in g.stores
                if s.target == value
            ]
            dtype = dtype_of(value)
            out.append((value, (4 if dtype in (bf16, f16) else dtype.bytes) * (max(inside) + 1)))
        return out
