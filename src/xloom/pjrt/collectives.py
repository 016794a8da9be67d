"""The collectives of a program: what they exchange, and a text that is the same in all processes that run the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import Flags

if TYPE_CHECKING:
    from xloom.pjrt.compiler import SpmdNative


class Exchanges(NamedTuple):
    """What the devices of a program exchange."""

    sites: list[CollectiveSite]
    declared: str
    """Its collectives before they became those."""
    is_cheap: bool
    """Whether the caller's thread may run it, next to what a message takes."""

    @staticmethod
    def of(module: Module, program: SpmdNative) -> Exchanges:
        """Those of the program of a module."""
        from xloom.pjrt.cost import is_cheap  # which loads passes

        return Exchanges(program.collectives, declared_collectives(module), is_cheap(module, program.memory))


def declared_collectives(module: Module) -> str:
    """A line each: its opcode, shapes and groups, and what it reduces by; and which loops and branches they are in."""
    number_of: dict[Computation, int] = {}  # of those with collectives
    texts = []
    for computation in callees_first([module.entry]):
        lines = []
        for i in computation:
            callees = [number_of[c] for c in i.called_computations if c in number_of]
            if i.op.flags & Flags.COLLECTIVE:
                lines.append(_line(i))
            elif callees:
                lines.append(f"{i.opcode} {callees}")
        if lines:
            number_of[computation] = len(texts)
            texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _line(instruction: Instruction) -> str:
    shapes = [shape.to_text(layout=False) for shape in (instruction.shape, *(o.shape for o in instruction.operands))]
    attributes = {name: value for name, value in instruction.attrs.items() if name != "to_apply"}
    region = instruction.attrs.get("to_apply")
    reducer = region.root.opcode if region is not None else ""
    return f"{instruction.opcode} {' '.join(shapes)} {attributes} {reducer}"
