"""Parts of the entry become parameters, where they are read, and what they read becomes outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.dce import remove_keeping_order
from xloom.reduction.base import Reduction, Site, UnfitError, set_outputs

_INPUTS = frozenset(("parameter", "constant"))


@dataclass(frozen=True)
class Extraction(Reduction):
    """Removes instructions of the entry. A site is the number of one, operands first."""

    name: ClassVar[str] = "extract"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        order = module.entry.post_order()
        return [(k,) for k, i in enumerate(order) if i.opcode not in _INPUTS and not _is_results(i)]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        entry = module.entry
        order = entry.post_order()
        removed = {order[k]: None for (k,) in sites}
        old_root = entry.root
        if _is_results(old_root):
            removed[old_root] = None
        outputs = [
            i
            for i in order
            if i not in removed
            and i.opcode not in _INPUTS
            and (i is old_root or any(user in removed for user in i.users))
        ]
        if not outputs:
            raise UnfitError
        for instruction in removed:
            inner = [user for user in instruction.users if user not in removed]
            if inner:
                stand_in = entry.add(_stand_in(instruction, len(entry.parameters)))
                for user in inner:
                    for k, operand in enumerate(user.operands):
                        if operand is instruction:
                            user.replace_operand(k, stand_in)
        set_outputs(module, outputs)
        for instruction in reversed(order):
            if instruction in removed:
                remove_keeping_order(instruction)


def _is_results(instruction: Instruction) -> bool:
    return instruction.is_root and instruction.opcode == "tuple"


def _stand_in(instruction: Instruction, number: int) -> Instruction:
    if instruction.shape.is_token:
        return Instruction("token", "after-all", instruction.shape)
    return Instruction(f"p{number}", "parameter", instruction.shape, (), {"parameter_number": number})
