"""convolution: sums of products over a window, with any dimension numbers, strides, padding, dilation and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xloom.cpu.kernel_modules.form import LEAST, ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.target import Target


@form_of("convolution")
def convolution_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem:
    """Its shapes, whatever the batch and the spatial sizes are, and how many groups there are of more than one."""
    labels, groups = instruction["dim_labels"], instruction["feature_group_count"]
    free_dims = (labels.input_batch, *labels.input_spatial), (), (labels.output_batch, *labels.output_spatial)

    def opened(size: Callable[[int], Any]) -> list[tuple]:
        dims = [
            tuple(size(n) if n >= LEAST or (n and d in free) else n for d, n in enumerate(s.dims))
            for s, free in zip(shapes, free_dims, strict=True)
        ]
        return [*dims, (size(groups) if groups > 1 else 1,)]

    attrs = {**instruction.attrs, "feature_group_count": None}
    told = instruction.opcode, [s.dtype.name for s in shapes], attrs, *filter(None, [instruction.backend_config])
    return form(repr(told), opened)


@kernel("convolution")
def convolution(kernel: Kernel, instruction: Instruction) -> None:
    """Copies the input and packs the kernel, where they are not read as they lie; then computes tiles of the output."""
    from xloom.cpu.kernels.convolution.emission import emit  # which is not needed where there is a kernel that serves

    emit(kernel, instruction)
