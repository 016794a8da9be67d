"""Which arrays a thunk may write its outputs over, while it reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xloom.codegen.buffer_values import BufferValue, aliased_leaves, defining_value, leaf_count
from xloom.codegen.elemental.loop_nests import loop_dims
from xloom.codegen.fusion.custom_fusion import fused_root
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.in_place_updates import reads_only_what_it_writes
from xloom.codegen.fusion.multi_output import Thunk, same_row
from xloom.codegen.kernel_facts import overwritten_operands
from xloom.codegen.ops import Trait, having
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target

_UPDATES = having(Trait.UPDATES)


def changed_operand(value: BufferValue) -> BufferValue | None:
    """The array that an operator changes a part of, or takes as its first state."""
    instruction, leaf = value
    if instruction.opcode == "while":
        return defining_value(instruction._operands[0], leaf)
    if fused_root(instruction).opcode in _UPDATES:
        return defining_value(instruction._operands[leaf])
    return next(iter(_aliased(instruction, leaf)), None)


def overwritable(thunk: Thunk, made: Instruction, leaf: int, target: Target) -> list[BufferValue]:
    """The arrays whose memory output `leaf` of `made` may take while the thunk reads them, on a target."""
    if isinstance(thunk, Instruction):
        if operands := overwritten_operands(thunk, leaf, target):
            return _whole_operands(thunk, [defining_value(thunk._operands[k]) for k in operands])
        if thunk.opcode == "while":
            (operand,) = thunk._operands
            reads = [defining_value(operand, k) for k in range(leaf_count(operand.shape))]
            return [reads[leaf]] if reads.count(reads[leaf]) == 1 else []
        return _aliased(thunk, leaf)
    if made.opcode == "dynamic-update-slice":
        return _changed_in_group(thunk, made)
    return [] if made.opcode == "reduce" else _read_in_group(thunk, (made, leaf))


def _aliased(instruction: Instruction, leaf: int) -> list[BufferValue]:
    """The array that a custom call changes into an output, if it sees it nowhere else."""
    aliases = aliased_leaves(instruction) if instruction.opcode == "custom-call" else {}
    if leaf not in aliases:
        return []
    number, part = aliases[leaf]
    value = defining_value(instruction._operands[number], part)
    reads = [defining_value(o, k) for o in instruction._operands for k in range(leaf_count(o.shape))]
    return [value] if reads.count(value) == 1 else []


def _whole_operands(thunk: Thunk, values: Iterable[BufferValue]) -> list[BufferValue]:
    """Those that the thunk reads as the changed operand only."""
    if isinstance(thunk, Instruction):
        reads = [defining_value(o) for o in thunk._operands]
        return [s for s in values if reads.count(s) == 1]
    (root,) = thunk.roots
    read = {defining_value(o) for i in (root, *thunk.inlined) for o in (i._operands[1:] if i is root else i._operands)}
    return [s for s in values if s not in read]


def _changed_in_group(group: FusionGroup, update: Instruction) -> list[BufferValue]:
    """The array that a dynamic-update-slice changes, if of it nothing but the element to be written is read."""
    changed = defining_value(update._operands[0])
    return [changed] if reads_only_what_it_writes(group, update) else []


def _read_in_group(group: FusionGroup, made: BufferValue) -> list[BufferValue]:
    """The arrays of which each element is read for the last time when the one in its place is written.

    In the stage that writes it that is the same element; stages before it may read all of the same row.
    """
    nest = group.nest
    number, mine = next((k, s) for k, stage in enumerate(nest.stages) for s in stage.stores if s.target == made)
    nbytes, row = made[0].shape.dtype.bytes, math.prod(loop_dims(made[0])[group.rank :])
    unsafe: set[BufferValue] = set()
    safe: dict[BufferValue, None] = {}
    for k, loads in enumerate(group.loads):
        for node in loads:
            same = node.address == mine.address if k == number else k < number
            if same and same_row(nest.outer, node.address, mine.address, row) and node.dtype.bytes == nbytes:
                safe[defining_value(*node.source)] = None
            else:
                unsafe.add(defining_value(*node.source))
    return [s for s in safe if s not in unsafe]
