"""What nothing reads, where that is why a module fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.dce import remove_keeping_order
from xloom.reduction.base import Places, Reduction, Site, host, numbered, set_outputs
from xloom.reduction.cleaning import clean


@dataclass(frozen=True)
class Unread(Reduction):
    """Removes instructions that no result depends on, those with effects too: (computation, instruction)."""

    name: ClassVar[str] = "drop unread"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        unread: set[Instruction] = set()
        found: list[Site] = []
        for c, k, i in reversed(numbered(module)):
            if not i.is_root and i.opcode != "parameter" and all(user in unread for user in i.users):
                unread.add(i)
                found.append((c, k))
        return found

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        for c, k in sites:
            instruction = places.at(c, k)
            if instruction.is_dead:  # what read it has been removed
                remove_keeping_order(instruction)


@dataclass(frozen=True)
class UnreadToResult(Reduction):
    """An instruction that nothing reads is all that the module computes: (computation, instruction).

    Its computation becomes the entry, and what else nothing reads goes.
    """

    name: ClassVar[str] = "return unread"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [(c, k) for c, k, i in numbered(module) if i.is_dead and i.opcode != "parameter"]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((c, k),) = sites
        unread = Places(module).at(c, k)
        module.entry = host(unread)
        set_outputs(module, [unread])
        clean(module)
