"""LLVM IR of kernels to PTX."""

from __future__ import annotations

from xloom.cuda.kernel import DeviceKernel
from xloom.llvm import jit
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target


def ptx_of(kernel: DeviceKernel, target: Target) -> str:
    """The PTX of a kernel. Raises RuntimeError with what LLVM says is wrong with it."""
    return jit.assembly(kernel.text, PassPipeline.THREADS, target)
