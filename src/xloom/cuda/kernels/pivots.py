"""The order of rows that an LU factor's pivots make: a block of threads for each matrix."""

from __future__ import annotations

import math

from xloom.cuda.kernel import THREADS, DeviceKernel, KernelBuilder, strided
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access
from xloom.llvm.types import I32, I64


def permutation(lowering: ThunkLowering, call: Instruction) -> None:
    """cu_lu_pivots_to_permutation: s32[..., k] of rows, from 0, that each of the first ones is exchanged with in turn,
    to s32[..., m], which row comes to each place."""
    *outer, count = call.operands[0].shape.dims
    if call.shape.size:
        kernel = _kernel(lowering, count, call.shape.dims[-1])
        lowering.launch(kernel, math.prod(outer), [lowering.operand(0), lowering.output()])


def _kernel(lowering: ThunkLowering, count: int, rows: int) -> DeviceKernel:
    kernel = KernelBuilder(lowering.target, 2, THREADS, f"{count} exchanges of {rows} rows, a block for each matrix")
    b, (pivots, places) = kernel.b, kernel.pointers
    first, first_pivot = (b.mul(kernel.block, I64(size)) for size in (rows, count))
    with strided(b, kernel.thread, I64(rows), kernel.threads) as i:
        element_access.store(b, places, s32, b.add(first, i), b.trunc(i, I32))
    kernel.barrier()
    with b.if_then(b.icmp_signed("==", kernel.thread, I64(0))), strided(b, I64(0), I64(count), 1) as i:
        pivot = element_access.load(b, pivots, s32, b.add(first_pivot, i))
        here, there = b.add(first, i), b.add(first, b.sext(pivot, I64))
        upper, lower = (element_access.load(b, places, s32, at) for at in (here, there))
        element_access.store(b, places, s32, here, lower)
        element_access.store(b, places, s32, there, upper)
    return kernel.finished()
