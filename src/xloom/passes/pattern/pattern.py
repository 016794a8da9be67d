"""What a pattern is: HLO modules, each a variant of the same computation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from xloom.errors import PassError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.pattern.constraint import counted
from xloom.passes.pattern.views import core

EITHER = "xloom.either"
"""Target of a custom call that stands, in a pattern, for any one of its operands."""

_NOT_COUNTED = frozenset({"parameter", "constant"})


@dataclass(frozen=True)
class Pattern:
    """A computation to look for. The entry's parameters stand for any values, its root (or each of its parts, if it
    is a tuple) for what the match gives to the rest of the program.

    Sizes in the pattern are placeholders: a dimension of it stands for any dimensions in its place, a dtype for any
    of its kind; with the module's frontend attribute `shapes="exact"` both are what they say. Constants and attributes
    are matched by value; see `constraint` for other wishes. A custom call to `xloom.either` matches what one of its
    operands matches.
    """

    name: str
    variants: tuple[Variant, ...]

    @staticmethod
    def of(name: str, modules: Iterable[Module]) -> Pattern:
        """The pattern whose variants are `modules`, to be tried in this order. Raises PassError for an empty one."""
        return Pattern(name, tuple(Variant(m) for m in modules))


class Variant:
    """A variant of a pattern."""

    def __init__(self, module: Module):
        self.module = module
        entry = module.entry
        root = entry.root
        self.parameters = entry.parameters
        self.outputs: tuple[Instruction, ...] = root.operands if root.opcode == "tuple" else (root,)
        self.exact = module.frontend_attributes.get("shapes") == "exact"
        for instruction in entry:
            if instruction.opcode == "constant":
                counted(instruction)  # says what is wrong with it
        for output in self.outputs:
            if not opcodes_of(output) - _NOT_COUNTED:
                raise PassError(
                    f"the pattern {module.name} computes nothing for its result {output.name}",
                    hint="return what the pattern computes, not its argument",
                )

    @cached_property
    def size(self) -> int:
        """How many instructions a match has at least, views, constants and parameters not counted."""
        return len(self.instructions_of(self.outputs))

    @cached_property
    def anchor(self) -> int:
        """The output with which to begin: the one that needs most instructions."""
        sizes = [len(self.instructions_of((o,))) for o in self.outputs]
        return sizes.index(max(sizes))

    def instructions_of(self, tops: Iterable[Instruction]) -> set[Instruction]:
        """What `tops` are computed from, by the first alternative of each choice."""
        seen: set[Instruction] = set()
        stack = [core(t) for t in tops]
        while stack:
            instruction = stack.pop()
            if is_choice(instruction):
                stack.append(core(instruction.operands[0]))
            elif instruction not in seen and instruction.opcode not in _NOT_COUNTED:
                seen.add(instruction)
                stack.extend(core(o) for o in instruction.operands)
        return seen


def is_choice(instruction: Instruction) -> bool:
    """True for what matches any one of its operands."""
    return instruction.opcode == "custom-call" and instruction.attrs.get("custom_call_target") == EITHER


def is_top(instruction: Instruction) -> bool:
    """True for a result of topk, which a program may also have as a slice of sorted rows."""
    return instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "topk"


def varies_along(
    pattern: Instruction, dimension: int, known: dict[tuple[Instruction, int], bool] | None = None
) -> bool:
    """False where all elements of a pattern's value along a dimension are the same, for it is broadcast there."""
    known = {} if known is None else known
    key = pattern, dimension
    if key not in known:
        if pattern.opcode == "broadcast":
            into = pattern["dimensions"]
            varies = dimension in into and varies_along(pattern.operands[0], into.index(dimension), known)
        elif pattern.operands and (pattern.op.elementwise or is_choice(pattern)):
            varies = any(o.shape.rank > 0 and varies_along(o, dimension, known) for o in pattern.operands)
        else:
            varies = True
        known[key] = varies
    return known[key]


def opcodes_of(pattern: Instruction) -> set[str]:
    """The opcodes that a program's value may have, views aside, to match `pattern`; empty if it may be any value."""
    pattern = core(pattern)
    if pattern.opcode == "parameter":
        return set()
    if is_top(pattern):
        return {pattern.opcode, "slice"}
    if not is_choice(pattern):
        return {pattern.opcode}
    found = [opcodes_of(o) for o in pattern.operands]
    return set() if set() in found else set().union(*found)
