"""A fusion group: the instructions of one loop nest, and which instructions may be in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xloom.codegen.buffer_values import BufferValue, defining_values
from xloom.codegen.elemental import register_rules
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.loop_ir.nest import LoopNest, element_cost, node_count
from xloom.codegen.loop_ir.nodes import Load
from xloom.codegen.ops import OP_ROWS, Role, Trait, having
from xloom.hlo.instruction import Instruction

register_rules()

_FORWARDING = having(Trait.FORWARDS)


@dataclass(eq=False)
class FusionGroup:
    """Instructions of one loop nest: those of `stages` are stored, `inlined` are computed where they are used.

    With several stages the loops over the first `rank` dimensions are around all of them.
    """

    stages: list[list[Instruction]]
    inlined: set[Instruction] = field(default_factory=set)
    rank: int = 0
    most: tuple[int, int] | None = None
    """Nodes and cost of the others that it is put together of, if that was done without a look at its nest."""

    @cached_property
    def roots(self) -> list[Instruction]:
        """The stored instructions of all stages."""
        return [root for stage in self.stages for root in stage]

    @cached_property
    def made(self) -> set[Instruction]:
        """The same, as a set."""
        return set(self.roots)

    @cached_property
    def nest(self) -> LoopNest:
        """The loops of all that it makes."""
        return nest_for(self.stages, self.inlined, self.rank)

    @cached_property
    def loads(self) -> list[list[Load]]:
        """What each stage of its nest reads."""
        return [stage.loads for stage in self.nest.stages]

    @cached_property
    def size(self) -> tuple[int, int]:
        """How many nodes its nest has at most, and what an element costs."""
        return self.most or (node_count(self.nest), element_cost(self.nest))

    @property
    def is_divided(self) -> bool:
        """Whether loops of its nest are parts of a dimension: others that share them would have more nodes."""
        return self.most is None and self.nest.divided

    @cached_property
    def values_read(self) -> list[BufferValue]:
        """The arrays that it reads, its own ones among them where a stage reads those of one before it."""
        read = (o for i in (*self.roots, *self.inlined) for o in i._operands if o not in self.inlined)
        return list(dict.fromkeys(value for o in read for value in defining_values(o)))

    @cached_property
    def reads(self) -> set[Instruction]:
        """What makes the arrays that it reads, and what it waits for."""
        found = {made for made, _ in self.values_read}
        found.update(before for i in (*self.roots, *self.inlined) for before in i.control_predecessors)
        return found.difference(self.roots)


def is_fusible(instruction: Instruction) -> bool:
    """True when an element of it can be computed by itself."""
    role, shape = OP_ROWS[instruction.opcode].role, instruction.shape
    if instruction.opcode == "constant":
        return shape.is_array and shape.size == 1
    return role is Role.ROOT or (role is Role.ELEMENT and shape.is_array)


def is_alias(opcode: str) -> bool:
    """True when an instruction only says whose memory a value is, unless it is part of a loop nest."""
    return OP_ROWS[opcode].role is Role.ALIAS or opcode in _FORWARDING


def inlined_by(roots: Sequence[Instruction], stored: set[Instruction]) -> set[Instruction]:
    """The instructions that a nest computes for `roots`, without them."""
    found: set[Instruction] = set()
    stack = [o for r in roots for o in _read(r)]
    while stack:
        instruction = stack.pop()
        if instruction in found or instruction in stored or not is_fusible(instruction):
            continue
        found.add(instruction)
        stack.extend(instruction._operands)
    return found


def _read(root: Instruction) -> Sequence[Instruction]:
    return root._operands[1:] if root.opcode == "dynamic-update-slice" else root._operands
