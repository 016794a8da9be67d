"""Results of the entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.reduction.base import Reduction, Site, UnfitError, set_outputs


@dataclass(frozen=True)
class Outputs(Reduction):
    """Drops elements of the result, tuples in it taken apart. A site is the number of an element."""

    name: ClassVar[str] = "drop outputs"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        found = _outputs(module.entry.root)
        return [(k,) for k in range(len(found))] if module.entry.root.opcode == "tuple" else []

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        dropped = {k for (k,) in sites}
        kept = [o for k, o in enumerate(_outputs(module.entry.root)) if k not in dropped]
        if not kept:
            raise UnfitError
        set_outputs(module, kept)


def _outputs(root: Instruction) -> list[Instruction]:
    """The elements that are not tuples made here, each once."""
    found: dict[Instruction, None] = {}
    stack = [root]
    while stack:
        instruction = stack.pop()
        if instruction.opcode == "tuple":
            stack.extend(reversed(instruction.operands))
        else:
            found[instruction] = None
    return list(found)


@dataclass(frozen=True)
class OutputToCopy(Reduction):
    """An element of the result becomes a copy of one of its operands: (element, operand)."""

    name: ClassVar[str] = "copy operands"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [
            (k, n)
            for k, output in enumerate(_outputs(module.entry.root))
            if len(output.operands) > 1 or output.called_computations
            for n, operand in enumerate(output.operands)
            if operand.shape.is_array
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((k, n),) = sites
        outputs = _outputs(module.entry.root)
        operand = outputs[k].operands[n]
        outputs[k] = module.entry.add(Instruction("copy", "copy", operand.shape, [operand]))
        set_outputs(module, outputs)
