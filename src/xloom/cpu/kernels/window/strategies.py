"""The strategies of reduce-window: in linear time, axis by axis where windows overlap, or window by window."""

from __future__ import annotations

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.window.axes import axes_of
from xloom.cpu.kernels.window.cumulative import is_cumulative, reduce_cumulatively
from xloom.cpu.kernels.window.each_window import reduce_each_window
from xloom.cpu.kernels.window.reducer import Reducer
from xloom.cpu.kernels.window.sliding import reduce_by_axis, why_apart
from xloom.hlo.instruction import Instruction


def emit(kernel: Kernel, instruction: Instruction) -> None:
    """The form of the windows decides."""
    axes = axes_of(kernel.problem or kernel.operands[0].dims, instruction["window"])
    reducer = Reducer(kernel, instruction["to_apply"])
    if kernel.problem:
        chosen("window by window", "windows are small, and lie in the array")
        reduce_each_window(kernel, reducer, axes)
    elif is_cumulative(reducer, axes):
        chosen(
            "in linear time, each result out of the one before", "all windows begin, or all end, at one end of an axis"
        )
        reduce_cumulatively(kernel, reducer, axes)
    elif not (why := why_apart(reducer, axes, kernel.target)):
        chosen("axis by axis: windows share what they have in common", "each on its own would take longer")
        reduce_by_axis(kernel, reducer, axes)
    else:
        chosen("window by window", why)
        reduce_each_window(kernel, reducer, axes)
