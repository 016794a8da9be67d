"""Windows: a thread for each element, which goes over its window."""

from __future__ import annotations

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.elemental.reduce import plain_operator
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.cumulative import cumulative_axis, scan_along
from xloom.cuda.kernels.item_threads import lower_by_items
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.instruction import Instruction


@kernel("reduce-window")
def reduce_window(lowering: ThunkLowering, instruction: Instruction) -> None:
    """A scan where windows are cumulative; one nest, where the computation takes and gives the types of the arrays."""
    axis = cumulative_axis(instruction)
    if axis is not None:
        scan_along(lowering, instruction, axis)
        return
    operands = [o.shape.dtype for o in instruction._operands]
    results = [s.dtype for s in leaf_shapes(instruction.shape)]
    parameters = [p.shape.dtype for p in instruction["to_apply"].parameters]
    if [*results, *operands[: len(results)]] == parameters and operands[len(results) :] == results:
        # what is no plain operator may choose the first of equal ones, as windows of a selection do
        lowering.nest(nest_for([[instruction]], ()), in_order=not plain_operator(instruction["to_apply"]))
    else:
        lower_by_items(lowering, instruction)
