"""A called computation becomes the entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.module import Module
from xloom.reduction.base import Reduction, Site, forget_signature


@dataclass(frozen=True)
class CalleeAsEntry(Reduction):
    """Leaves what a computation computes, and nothing of its callers. A site is its number, the largest one first."""

    name: ClassVar[str] = "enter callee"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        others = [(len(c), -k) for k, c in enumerate(module.computations) if c is not module.entry]
        return [(-k,) for _, k in sorted(others, reverse=True)]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((number,),) = sites
        forget_signature(module)
        module.entry = module.computations[number]
