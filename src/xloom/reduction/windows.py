"""Windows that slide over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.attributes import Window, WindowDimension
from xloom.hlo.module import Module
from xloom.reduction.base import Places, Reduction, Site, numbered, outputs_of, set_outputs
from xloom.reduction.substitution import zeros

_ONE = WindowDimension(1)


@dataclass(frozen=True)
class UnitWindows(Reduction):
    """A window becomes one element, so that what comes of an array has its size: (computation, instruction).

    A select-and-scatter then scatters its operand; who reads a reduce-window, but for the results, reads zeros.
    """

    name: ClassVar[str] = "unit windows"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [
            (c, k)
            for c, k, i in numbered(module)
            if (i.opcode == "select-and-scatter" and i.operands[0] is not i.operands[1])
            or (i.opcode == "reduce-window" and i.shape.is_array and i.shape != i.operands[0].shape)
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        for c, k in sites:
            instruction = places.at(c, k)
            operand = instruction.operands[0]
            instruction["window"] = Window((_ONE,) * operand.shape.rank)
            if instruction.opcode == "select-and-scatter":
                instruction.replace_operand(1, operand)
                continue
            outputs, root = outputs_of(module), module.entry.root
            readers = [user for user in instruction.users if user is not root or root.opcode != "tuple"]
            if readers:
                instead = zeros(places.computations[c], instruction.shape)
                for reader in readers:
                    for n, each in enumerate(reader.operands):
                        if each is instruction:
                            reader.replace_operand(n, instead)
            instruction.shape = operand.shape
            if instruction in outputs:
                set_outputs(module, outputs)
