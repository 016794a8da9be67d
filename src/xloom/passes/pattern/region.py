"""May a match be cut out of its computation? What it holds, what it needs, and what it gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from xloom.hlo.call_graph import callees_first
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.passes.effects import Effects
from xloom.passes.pattern.match import Match
from xloom.passes.pattern.views import is_view

_COPIED = frozenset({"constant", "iota"})
_MOST_ELEMENTS = 10_000


@dataclass(frozen=True)
class Refusal:
    """Why a match stays where it is, and the instruction that stands in the way."""

    reason: str
    place: Instruction
    escapes: bool = False
    """True where others use what stands in the way."""
    required: bool = False
    """True where what the pattern requires does not hold."""


@dataclass(frozen=True)
class Region:
    """A part of a computation that one call can replace."""

    inside: tuple[Instruction, ...]
    operands: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]
    names: tuple[str, ...]
    """What the pattern calls the operands."""


def region(match: Match, effects: Effects, keep_escaping: bool) -> Region | Refusal:
    """The region of a match, or why it cannot be one.

    A value inside that others use too is a reason, unless `keep_escaping` makes it an output. What is computed from
    constants alone, and views of the operands, are copied where others use them too. Constants that text cannot hold,
    and arrays that stand for any value, become new operands.
    """
    parameters = [p for p in match.variant.parameters if p in match.operands]
    constants = [i for i in match.inside if i.opcode == "constant"]
    passed = [i for i in constants if i in match.arrays or not _fits_in_text(i.literal)]
    operands = (*(match.operands[p] for p in parameters), *passed)
    inside = dict.fromkeys(i for i in match.inside if i not in passed)
    for instruction in inside:
        refused = _stays(instruction, operands, effects)
        if refused is not None:
            return refused
    copied = _copied(inside, operands)
    outputs = list(match.outputs)
    for instruction in _escaping(inside, copied, outputs):
        if not keep_escaping:
            user = next((u for u in instruction.users if u not in inside), None)
            by = f"{user.name} uses it too" if user is not None else "it is the computation's result too"
            return Refusal(f"{instruction.name} is inside the match, but {by}", instruction, escapes=True)
        outputs.append(instruction)
    cycle = _comes_back(operands, inside.keys() - copied)
    if cycle is not None:
        return Refusal(f"the operand {cycle.name} needs a result of the match: a call would wait for itself", cycle)
    return Region(tuple(inside), operands, tuple(dict.fromkeys(outputs)), tuple(p.name for p in (*parameters, *passed)))


def _fits_in_text(literal: Literal) -> bool:
    """False for a value that is large, or that text would not hold exactly."""
    return literal.array is not None and literal.array.size <= _MOST_ELEMENTS and _text_is_exact(literal)


def _text_is_exact(literal: Literal) -> bool:
    """False for a value that is not known, or of which HLO text loses something."""
    if literal.elided or literal.array is None:
        return False
    dtype = literal.shape.dtype
    if not (dtype.is_float or dtype.is_complex):
        return True
    parts = (np.real(literal.array), np.imag(literal.array)) if dtype.is_complex else (literal.array,)
    # the sign of a zero is lost
    if any(((part == 0) & np.signbit(part.astype(np.float64))).any() for part in parts):
        return False
    # read back, a complex number with a NaN as its real part has it as both
    real, *imaginary = parts
    return not any((np.isnan(real) & ~np.isnan(part)).any() for part in imaginary)


def _stays(instruction: Instruction, operands: Collection[Instruction], effects: Effects) -> Refusal | None:
    if instruction in operands and instruction.opcode != "constant":  # which the carried module has itself, too
        return Refusal(f"{instruction.name} is inside the match and an operand of it", instruction)
    if instruction.has_control_dependencies:
        return Refusal(f"{instruction.name} has control dependencies", instruction)
    if effects.of(instruction):
        return Refusal(f"{instruction.name} has an effect", instruction)
    for callee in callees_first(instruction.called_computations):
        for inner in callee:
            if inner.opcode == "constant" and not _text_is_exact(inner.literal):
                reason = f"{instruction.name} calls {callee.name}, whose constant {inner.name} text cannot hold"
                return Refusal(reason, instruction)
    return None


def _copied(inside: Collection[Instruction], operands: Collection[Instruction]) -> set[Instruction]:
    """What may be computed again: views of operands, and what is made of constants and iotas (scales, masks)."""
    found: set[Instruction] = set()

    def of_operand(instruction: Instruction) -> bool:
        while is_view(instruction) and instruction not in operands:
            instruction = instruction.operands[0]
        return instruction in operands

    for instruction in operands_first(inside):
        made = instruction.operands and (instruction.op.elementwise or is_view(instruction))
        if (
            instruction.opcode in _COPIED
            or (made and all(o in found and o not in operands for o in instruction.operands))
            or (is_view(instruction) and of_operand(instruction))
        ):
            found.add(instruction)
    return found


def operands_first(instructions: Iterable[Instruction]) -> list[Instruction]:
    """The instructions, each after those that it needs."""
    wanted = set(instructions)
    placed: dict[Instruction, None] = {}
    for start in instructions:
        stack = [start]
        while stack:
            instruction = stack[-1]
            waiting = [o for o in instruction.operands if o in wanted and o not in placed]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                stack.pop()
                placed[instruction] = None
    return list(placed)


def _escaping(
    inside: Collection[Instruction], copied: Collection[Instruction], outputs: Collection[Instruction]
) -> list[Instruction]:
    return [
        i
        for i in inside
        if i not in copied
        and i not in outputs
        and (i.is_root or any(u not in inside and not is_dead_part(u) for u in i.users))
    ]


def is_dead_part(instruction: Instruction) -> bool:
    """True for a part of a tuple that nothing needs, as JAX's loops leave behind."""
    return instruction.opcode == "get-tuple-element" and instruction.is_dead and not instruction.control_successors


def _comes_back(operands: Iterable[Instruction], inside: Collection[Instruction]) -> Instruction | None:
    """An operand that is computed from something inside, if there is one."""
    clean: set[Instruction] = set()
    for operand in operands:
        stack, seen = [operand], {operand}
        while stack:
            instruction = stack.pop()
            for before in (*instruction.operands, *instruction.control_predecessors):
                if before in inside:
                    return operand
                if before not in seen and before not in clean:
                    seen.add(before)
                    stack.append(before)
        clean |= seen
    return None
