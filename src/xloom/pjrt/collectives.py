"""The collectives of a module, as text that is the same in all processes that run the same program."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import Flags


def declared_collectives(module: Module) -> str:
    """A line each: its opcode, shapes and groups, and what it reduces by."""
    return "\n".join(_line(i) for c in module.computations for i in c if i.op.flags & Flags.COLLECTIVE)


def _line(instruction: Instruction) -> str:
    shapes = [shape.to_text(layout=False) for shape in (instruction.shape, *(o.shape for o in instruction.operands))]
    attributes = {name: value for name, value in instruction.attrs.items() if name != "to_apply"}
    region = instruction.attrs.get("to_apply")
    reducer = region.root.opcode if region is not None else ""
    return f"{instruction.opcode} {' '.join(shapes)} {attributes} {reducer}"
