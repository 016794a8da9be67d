"""What a device gives to an all-gather, made where it belongs in the gathered array: it is not copied there."""

from __future__ import annotations

import math

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_shapes
from xloom.codegen.buffers.stack_budget import SMALL
from xloom.codegen.schedule.thunks import ScheduledComputation, roots_of
from xloom.hlo.instruction import Instruction


def own_part(gathered: BufferValue) -> BufferValue | None:
    """The array that a device gives to an all-gather; None where it does not lie in one piece of what comes of it."""
    instruction, leaf = gathered
    if instruction.opcode != "all-gather":
        return None
    (dim,) = instruction["dimensions"]
    shape = instruction._operands[leaf].shape
    if math.prod(shape.dims[:dim]) != 1 or shape.nbytes <= SMALL or shape.nbytes % ALIGNMENT:
        return None
    return defining_value(instruction._operands[leaf])


def gathered_next(schedule: ScheduledComputation, value: BufferValue) -> BufferValue | None:
    """The array that is gathered from a value soon after this is made, and not read again; None where there is none.

    Soon is before anything else is made that is large, but for what the same thunk gathers: the memory of all parts is
    not to be taken long before it is written.
    """
    number, last = schedule.made[value], schedule.last.get(value, -1)
    if last >= len(schedule.thunks):
        return None
    gather = schedule.thunks[last]
    if not isinstance(gather, Instruction) or gather.opcode != "all-gather":
        return None
    beside = {defining_value(operand)[0] for operand in gather._operands}
    between = [root for thunk in schedule.thunks[number + 1 : last] for root in roots_of(thunk)]
    if any(root.shape.nbytes > SMALL and root not in beside for root in between):
        return None
    leaves = range(len(leaf_shapes(gather.shape)))
    return next(((gather, k) for k in leaves if own_part((gather, k)) == value), None)
