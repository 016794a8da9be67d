"""The table of operators that are written with others of ATen, where torch has no such definition or a slow one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

Decomposition = Callable[..., Any]
aten = torch.ops.aten

OWN: dict[OpOverload, Decomposition] = {}


def decomposes(*ops: OpOverload) -> Callable[[Decomposition], Decomposition]:
    """Registers a function as the definition of operators."""

    def register(rule: Decomposition) -> Decomposition:
        for op in ops:
            OWN[op] = rule
        return rule

    return register
