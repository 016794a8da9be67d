"""Reduce-window: cumulative ones in linear time, others window by window."""

from __future__ import annotations

from xloom.cpu.kernel import Kernel, kernel
from xloom.cpu.kernels.windows.axes import axes_of
from xloom.cpu.kernels.windows.cumulative import fold_cumulatively, is_cumulative
from xloom.cpu.kernels.windows.fold import fold
from xloom.cpu.kernels.windows.folder import Folder
from xloom.hlo.module import Instruction


@kernel("reduce-window")
def reduce_window(kernel: Kernel, instruction: Instruction) -> None:
    """The form of the windows decides."""
    if not kernel.outputs[0].size:
        return
    axes = axes_of(kernel.operands[0].dims, instruction["window"])
    folder = Folder(kernel, instruction["to_apply"])
    (fold_cumulatively if is_cumulative(folder, axes) else fold)(kernel, folder, axes)
