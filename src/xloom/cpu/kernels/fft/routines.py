"""The functions of phases, each in a module that depends on no length.

What writes them is imported where that has to be done, which is seldom.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.fft.signatures import PHASE, TRANSFORM, LinesCode, WalkCode, transform_symbol
from xloom.hlo.dtype import DType
from xloom.llvm.pass_pipeline import PassPipeline

PhaseCode = LinesCode | WalkCode
"""What the function of a phase depends on."""


def phase_function(kernel: Kernel, code: PhaseCode) -> ir.Function:
    """The function of a phase, with what it calls."""
    if isinstance(code, WalkCode):
        return kernel.need_routine(code.symbol, PHASE, partial(_walk, code), PassPipeline.ROWS)
    symbol = transform_symbol(code.dtype, code.lanes)
    kernel.need_routine(symbol, TRANSFORM, partial(_transform, code.dtype, code.lanes), PassPipeline.TILES)
    return kernel.need_routine(code.symbol, PHASE, partial(_lines, code), PassPipeline.TILES)


def _walk(code: WalkCode) -> str:
    from xloom.cpu.kernels.fft.walk_module import walk_module

    return walk_module(code)


def _transform(dtype: DType, lanes: int) -> str:
    from xloom.cpu.kernels.fft.transform_module import transform_module

    return transform_module(dtype, lanes)


def _lines(code: LinesCode) -> str:
    from xloom.cpu.kernels.fft.lines_module import lines_module

    return lines_module(code)
