"""Trip counts, and other numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.reduction.base import Places, Reduction, Site, numbered

_ZEROS, _ONES, _HALF, _LESS_BY_AN_EIGHTH, _ONE_LESS = range(5)


@dataclass(frozen=True)
class Constants(Reduction):
    """Numbers of a constant become 0, 1, or smaller: (computation, constant, which). Loops count up to such."""

    name: ClassVar[str] = "smaller numbers"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        found: list[Site] = []
        for c, k, i in numbered(module):
            if i.opcode == "constant" and i.shape.is_array and not i.shape.is_dynamic:
                found += [(c, k, change) for change in _changes(i)]
        return found

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        done: set[Instruction] = set()
        for c, k, change in sites:
            constant = places.at(c, k)
            if constant not in done:
                done.add(constant)
                constant.attrs["literal"] = Literal(constant.shape, _changed(constant.literal.value, change))


def _changes(constant: Instruction) -> list[int]:
    value = constant.literal.value
    if not value.any():
        return []
    if value.size == 1 and constant.shape.dtype.is_integer:
        number = abs(int(value.reshape(())))
        return [_ZEROS] if number == 1 else [_ZEROS, _ONES, _HALF, _LESS_BY_AN_EIGHTH, _ONE_LESS]
    return [_ZEROS] if (value == np.ones((), value.dtype)).all() else [_ZEROS, _ONES]


def _changed(value: np.ndarray, change: int) -> np.ndarray:
    if change == _ZEROS:
        return np.zeros_like(value, order="C")
    if change == _ONES:
        return np.ones_like(value, order="C")
    number = int(value.reshape(()))
    size = abs(number)
    smaller = {_HALF: size // 2, _LESS_BY_AN_EIGHTH: size - size // 8}.get(change, size - 1)
    return np.full(value.shape, smaller if number > 0 else -smaller).astype(value.dtype)
