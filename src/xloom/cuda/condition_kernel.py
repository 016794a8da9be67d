"""Kernels that tell conditional nodes of a CUDA graph what a program's loops and branches depend on."""

from __future__ import annotations

from llvmlite import ir

from xloom.cuda.kernel import WARP, DeviceKernel, KernelBuilder
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.target import Target
from xloom.llvm.types import I8, I32, I64, VOID

SET_CONDITION = "cudaGraphSetConditional"
"""What the driver gives kernels that it assembles from PTX: `void (u64 handle, u32 value)`."""


def predicate_kernel(target: Target, *, wanted: bool = True) -> DeviceKernel:
    """Whether a pred is `wanted`. Arguments: where it lies, and the handle."""
    strategy = f"tells a node of a graph whether a predicate is {str(wanted).lower()}"
    kernel = KernelBuilder(target, 1, WARP, strategy, numbers=1)
    given = kernel.b.icmp_signed("!=", kernel.b.load(kernel.pointers[0], typ=I8), I8(0))
    return _told(kernel, given if wanted else kernel.b.not_(given))


def branch_kernel(target: Target, number: int, count: int) -> DeviceKernel:
    """Whether an s32 chooses branch `number` of `count`, the last of which is for all others. Arguments as above."""
    strategy = f"tells a node of a graph whether branch {number} of {count} is chosen"
    kernel = KernelBuilder(target, 1, WARP, strategy, numbers=1)
    b, last = kernel.b, I32(count - 1)
    chosen = intrinsic(b, "umin", b.load(kernel.pointers[0], typ=I32), last)  # one below 0 is a great one
    return _told(kernel, b.icmp_signed("==", chosen, I32(number)))


def _told(kernel: KernelBuilder, holds: ir.Value) -> DeviceKernel:
    b = kernel.b
    tell = ir.Function(kernel.module, ir.FunctionType(VOID, [I64, I32]), SET_CONDITION)
    with b.if_then(b.icmp_signed("==", kernel.thread, I64(0))):
        b.call(tell, [kernel.numbers[0], b.zext(holds, I32)])
    return kernel.finished()
