"""Functions that LLVM calls where the processor has no instruction, and that the process may not have."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.scalar.conversion import to_odd
from xloom.llvm.types import DOUBLE, HALF

SYMBOLS = ("__truncdfhf2",)


def support_ir() -> str:
    """LLVM IR of them all."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(HALF, [DOUBLE]), "__truncdfhf2")
    b = ir.IRBuilder(function.append_basic_block())
    # to odd first: then the second rounding is the only one
    b.ret(b.fptrunc(to_odd(b, function.args[0]), HALF))
    return str(module)
