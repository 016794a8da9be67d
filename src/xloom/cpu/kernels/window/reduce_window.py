"""Reduce-window: cumulative ones in linear time, overlapping ones axis by axis, others window by window."""

from __future__ import annotations

from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.cpu.kernels.window.axes import axes_of
from xloom.cpu.kernels.window.cumulative import fold_cumulatively, is_cumulative
from xloom.cpu.kernels.window.fold import fold
from xloom.cpu.kernels.window.folder import Folder
from xloom.cpu.kernels.window.sliding import fold_by_axis, is_shared
from xloom.hlo.instruction import Instruction


@kernel("reduce-window")
def reduce_window(kernel: Kernel, instruction: Instruction) -> None:
    """The form of the windows decides."""
    if not kernel.outputs[0].size:
        return
    axes = axes_of(kernel.operands[0].dims, instruction["window"])
    folder = Folder(kernel, instruction["to_apply"])
    if is_cumulative(folder, axes):
        fold_cumulatively(kernel, folder, axes)
    elif is_shared(folder, axes, kernel.target):
        fold_by_axis(kernel, folder, axes)
    else:
        fold(kernel, folder, axes)
