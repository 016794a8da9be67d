"""Instructions with a kernel, and what is done to their operands, as one instruction: a fusion of kind kCustom."""

from __future__ import annotations

from collections.abc import Collection

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module


def fused_root(instruction: Instruction) -> Instruction:
    """The instruction whose kernel computes a fusion; one that is none itself."""
    return instruction["calls"].root if instruction.opcode == "fusion" else instruction


def fuse(module: Module, root: Instruction, inside: Collection[Instruction], name: str) -> None:
    """Replaces `root` by a fusion of it with what is `inside`, in a computation of that name."""
    computation = module.add(Computation(name))
    copies: dict[Instruction, Instruction] = {}
    leaves: list[Instruction] = []

    def copied(i: Instruction) -> Instruction:
        if i not in copies:
            if i in inside or i is root:
                copy = i.clone([copied(o) for o in i.operands])
            else:
                copy = Instruction("parameter", "parameter", i.shape, [], {"parameter_number": len(leaves)})
                leaves.append(i)
            copies[i] = computation.add(copy)
        return copies[i]

    computation.root = copied(root)
    assert root.parent is not None
    fusion = Instruction(root.name, "fusion", root.shape, leaves, {"kind": "kCustom", "calls": computation})
    fusion.metadata = root.metadata
    parent = root.parent
    parent.replace(root, fusion)
    for i in reversed(copies):  # operands were copied before what reads them
        if i in inside and not i.users:
            parent.remove(i)
