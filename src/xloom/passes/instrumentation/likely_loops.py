"""Which instructions one loop is likely to compute, so that what is looked at in them is looked at by one more loop."""

from __future__ import annotations

from collections.abc import Iterable

from xloom.hlo.instruction import Instruction

_NO_WORK = frozenset(("broadcast", "iota", "constant", "parameter", "slice", "reshape", "get-tuple-element", "bitcast"))


def likely_loops(order: Iterable[Instruction]) -> dict[Instruction, object]:
    """For each elementwise instruction, of those given operands first, what is equal for those of one likely loop.

    These are arrays of the same dimensions, have operands in common or are each other's, and as many steps that are not
    elementwise lie before them: of what is far apart, arrays would have to live until the last one.
    """
    steps: dict[Instruction, int] = {}
    parents: dict[Instruction, Instruction] = {}

    def first(instruction: Instruction) -> Instruction:
        while parents[instruction] is not instruction:
            parents[instruction] = instruction = parents[parents[instruction]]
        return instruction

    found: list[Instruction] = []
    for instruction in order:
        parents[instruction] = instruction
        steps[instruction] = max((steps[o] + _is_step(o) for o in instruction.operands), default=0)
        if instruction.op.elementwise and instruction.shape.is_array:
            found.append(instruction)
            for operand in instruction.operands:
                if operand.shape.is_array and operand.shape.dims == instruction.shape.dims:
                    parents[first(instruction)] = first(operand)
    return {i: (first(i), steps[i]) for i in found}


def _is_step(instruction: Instruction) -> bool:
    return not instruction.op.elementwise and instruction.opcode not in _NO_WORK
