"""Arrays that a fusion group changes in place: what of them it reads, and which state of a loop they are."""

from __future__ import annotations

from collections.abc import Iterator

from xloom.codegen.buffer_values import BufferValue, defining_value
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.hlo.instruction import Instruction


def loop_state_before(root: Instruction) -> Iterator[tuple[Instruction, BufferValue]]:
    """What a loop's body makes for its state, but for later changes of slices, and the state that it is in place of."""
    parameters = root.parent.parameters if root.parent is not None else []
    if root.opcode == "tuple" and len(parameters) == 1 and parameters[0].shape == root.shape:
        for number, new in enumerate(root._operands):
            yield before_updates(new), (parameters[0], number)


def before_updates(value: Instruction) -> Instruction:
    """The array of which others changed slices to make `value`; itself if it is no update."""
    while value.opcode == "dynamic-update-slice":
        value = value._operands[0]
    return value


def reads_only_what_it_writes(group: FusionGroup, update: Instruction) -> bool:
    """True when of the array that a dynamic-update-slice changes nothing but the element to be written is read.

    One element is written after all that it is made of has been read.
    """
    changed, new = update._operands[:2]
    return new.shape.size == 1 or reads_where_it_stores(group, defining_value(changed))


def reads_where_it_stores(group: FusionGroup, value: BufferValue) -> bool:
    """True when a group of one root reads, of a value, only the element at the address that it then stores."""
    ((store,),) = (stage.stores for stage in group.nest.stages)
    loads = (node for nodes in group.loads for node in nodes if defining_value(*node.source) == value)
    return all(node.address == store.address for node in loads)
