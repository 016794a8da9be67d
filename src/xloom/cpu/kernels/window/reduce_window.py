"""Reduce-window: what its code is for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.hlo.attributes import WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.target import Target

_SMALL = {"add": 9, "multiply": 9, "maximum": 7, "minimum": 7}
"""By operator, elements of a window that are always read for each anew, however many windows they are in."""
_SHORT = 128
"""The last dimensions that have no windows are a loop; one that is shorter is unrolled, and so for one size."""


@form_of("reduce-window")
def reduce_window_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem | None:
    """Small windows that lie in the array, with vectors along its last dimensions, for any number of them."""
    windows, dims = instruction["window"], shapes[0].dims
    body = instruction["to_apply"]
    if len(instruction._operands) != 2 or len(body) != 3 or body.root.operands != tuple(body.parameters):
        return None
    windowed = [k for k, window in enumerate(windows) if window != WindowDimension(1)]
    if not shapes[0].size or not windowed or not all(_lies_inside(windows[k], dims[k]) for k in windowed):
        return None
    last = windowed[-1] + 1
    line = math.prod(dims[last:])
    if line == 1 or math.prod(window.size for window in windows) > _SMALL.get(body.root.opcode, 0):
        return None

    def opened(size: Callable[[int], Any]) -> list[Any]:
        return [*(size(n) for n in dims[:last]), *(size(n) if line >= _SHORT else n for n in dims[last:])]

    told = instruction.opcode, shapes[0].dtype.name, shapes[-1].dtype.name, windows, body.root.opcode
    return form(repr(told), opened)


def _lies_inside(window: WindowDimension, size: int) -> bool:
    plain = (window.padding_low, window.padding_high, window.window_dilation, window.base_dilation) == (0, 0, 1, 1)
    return plain and not window.window_reversal and window.size < size


@kernel("reduce-window")
def reduce_window(kernel: Kernel, instruction: Instruction) -> None:
    """Writes nothing where there are no windows."""
    from xloom.cpu.kernels.window.strategies import emit  # which is not needed where there is a kernel that serves

    if kernel.outputs[0].size:
        emit(kernel, instruction)
