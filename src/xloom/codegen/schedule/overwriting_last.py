"""What changes an array where it lies comes after what else reads that: else it would change a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xloom.codegen.buffer_values import BufferValue, defining_value
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.in_place_updates import loop_state_before
from xloom.codegen.schedule.order import Thunk, made_by, reads_of, values_read
from xloom.hlo.instruction import Instruction

_WORK = 1 << 16
"""Thunks that are looked at per computation: some thousand changes of one array would take their square."""


def overwriting_last(thunks: Sequence[Thunk], root: Instruction) -> list[Thunk]:
    """Thunks that write over an array come, with what needs them, after those that read it and do not need them."""
    overwritten = list(_overwritten(thunks, root))
    if not overwritten:
        return list(thunks)
    order, work = list(thunks), 0
    values = {thunk: set(values_read(thunk)) for thunk in thunks}
    for thunk, value in overwritten:
        at = order.index(thunk)
        readers = [k for k in range(at + 1, len(order)) if value in values[order[k]]]
        work += len(order)
        if work > _WORK:
            break
        if not readers:
            continue
        # those between that need the thunk go with it, the others before it, both in the order that they had
        needs, others = [thunk], []
        made = set(made_by(thunk))
        for other in order[at + 1 : readers[-1] + 1]:
            if reads_of(other) & made:
                needs.append(other)
                made.update(made_by(other))
            else:
                others.append(other)
        if all(order[k] in others for k in readers):
            order[at : readers[-1] + 1] = [*others, *needs]
    return order


def _overwritten(thunks: Sequence[Thunk], root: Instruction) -> Iterator[tuple[Thunk, BufferValue]]:
    """The thunks that can write their result over an array, and that array."""
    states = {new: old for new, old in loop_state_before(root)}
    for thunk in thunks:
        if isinstance(thunk, FusionGroup):
            for made in thunk.roots:
                if made.opcode == "dynamic-update-slice":
                    yield thunk, defining_value(made._operands[0])
                elif made in states:
                    yield thunk, states[made]
