"""Sizes of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.module import Module
from xloom.passes.shrinking import resize, sizes_of
from xloom.reduction.base import Reduction, Site


@dataclass(frozen=True)
class Dimensions(Reduction):
    """Makes one size a smaller one, everywhere: (old, new)."""

    name: ClassVar[str] = "shrink dimensions"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        # a small size that is not 1 yet would become one with larger ones that come down to it
        return [
            (n, new)
            for n in sorted(sizes_of(module))
            if n > 1
            for new in dict.fromkeys((1, 2, n // 2, n - 1))
            if new < n
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        resize(module, dict(sites))  # type: ignore[arg-type]
