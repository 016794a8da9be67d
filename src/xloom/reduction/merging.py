"""Computations that can stand for one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import map_called
from xloom.hlo.module import Module
from xloom.reduction.base import Reduction, Site


@dataclass(frozen=True)
class OtherCallee(Reduction):
    """Who calls one computation calls another of its signature: the numbers of both, the latter not the larger one."""

    name: ClassVar[str] = "call another"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        alike: dict[object, list[tuple[int, int]]] = {}
        for k, computation in enumerate(module.computations):
            if computation is not module.entry:
                alike.setdefault(_signature(computation), []).append((len(computation), k))
        found = [(k, min(group)[1]) for group in alike.values() for _, k in group]
        return [(old, new) for old, new in found if old != new]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((k, n),) = sites
        old, new = module.computations[k], module.computations[n]
        for caller in module.callers()[old]:
            map_called(caller, lambda computation: new if computation is old else computation)


def _signature(computation: Computation) -> object:
    return tuple(p.shape for p in computation.parameters), computation.root.shape
