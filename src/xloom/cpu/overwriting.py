"""Which arrays a step may write its outputs over, while it reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xloom.cpu.fusion import Group
from xloom.cpu.grouping import Step, same_row
from xloom.cpu.kernels.sort import overwritten_operand
from xloom.cpu.leaves import Source, aliased_leaves, leaf_count, owner
from xloom.cpu.roots import loop_dims
from xloom.hlo.instruction import Instruction

IN_PLACE = {"dynamic-update-slice": 0, "scatter": 0}
"""Operators that change their operand, and its number: only a part of it is written."""


def changed_operand(source: Source) -> Source | None:
    """The array that an operator changes a part of, or takes as its first state."""
    instruction, leaf = source
    if instruction.opcode == "while":
        return owner(instruction._operands[0], leaf)
    if instruction.opcode in IN_PLACE:
        return owner(instruction._operands[IN_PLACE[instruction.opcode] + leaf])
    return next(iter(_aliased(instruction, leaf)), None)


def overwritable(step: Step, made: Instruction, leaf: int) -> list[Source]:
    """The arrays whose memory output `leaf` of `made` may take while the step reads them."""
    if isinstance(step, Instruction):
        if step.opcode == "scatter" or _is_transform(step):
            return _whole_operands(step, [owner(step._operands[leaf])])
        if step.opcode == "triangular-solve" and _solves_in_place(step):
            return _whole_operands(step, [owner(step._operands[1])])
        if step.opcode == "sort":
            operand = overwritten_operand(step, leaf)
            return [] if operand is None else _whole_operands(step, [owner(step._operands[operand])])
        if step.opcode == "while":
            (operand,) = step._operands
            reads = [owner(operand, k) for k in range(leaf_count(operand.shape))]
            return [reads[leaf]] if reads.count(reads[leaf]) == 1 else []
        return _aliased(step, leaf)
    if made.opcode == "dynamic-update-slice":
        return _whole_operands(step, [owner(made._operands[0])])
    return [] if made.opcode == "reduce" else _read_in_step(step, (made, leaf))


def _is_transform(step: Instruction) -> bool:
    """True for a Fourier transform that works in place."""
    if step.opcode != "fft":
        return False
    from xloom.cpu.kernels.fft import transforms_in_place  # with which goes all that makes one

    return transforms_in_place(step)


def _solves_in_place(step: Instruction) -> bool:
    from xloom.cpu.kernels.triangular_solve import solves_in_place  # with which goes all that makes one

    return solves_in_place(step)


def _aliased(instruction: Instruction, leaf: int) -> list[Source]:
    """The array that a custom call changes into an output, if it sees it nowhere else."""
    aliases = aliased_leaves(instruction) if instruction.opcode == "custom-call" else {}
    if leaf not in aliases:
        return []
    number, part = aliases[leaf]
    source = owner(instruction._operands[number], part)
    reads = [owner(o, k) for o in instruction._operands for k in range(leaf_count(o.shape))]
    return [source] if reads.count(source) == 1 else []


def _whole_operands(step: Step, sources: Iterable[Source]) -> list[Source]:
    """Those that the step reads as the changed operand only."""
    if isinstance(step, Instruction):
        reads = [owner(o) for o in step._operands]
        return [s for s in sources if reads.count(s) == 1]
    (root,) = step.roots
    read = {owner(o) for i in (root, *step.inlined) for o in (i._operands[1:] if i is root else i._operands)}
    return [s for s in sources if s not in read]


def _read_in_step(group: Group, made: Source) -> list[Source]:
    """The arrays of which each element is read for the last time when the one in its place is written.

    In the stage that writes it that is the same element; stages before it may read all of the same row.
    """
    nest = group.nest
    number, mine = next((k, s) for k, stage in enumerate(nest.stages) for s in stage.stores if s.target == made)
    nbytes, row = made[0].shape.dtype.bytes, math.prod(loop_dims(made[0])[group.rank :])
    unsafe: set[Source] = set()
    safe: dict[Source, None] = {}
    for k, loads in enumerate(group.loads):
        for node in loads:
            same = node.address == mine.address if k == number else k < number
            if same and same_row(nest.outer, node.address, mine.address, row) and node.dtype.bytes == nbytes:
                safe[owner(*node.source)] = None
            else:
                unsafe.add(owner(*node.source))
    return [s for s in safe if s not in unsafe]
