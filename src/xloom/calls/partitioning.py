"""How custom calls are cut over several devices: by whom, if others know how to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.sharding import Sharding


@dataclass(frozen=True)
class Partitioned:
    """What each device does of a custom call, and how its operands and its result are cut for that."""

    module: Module
    operands: Sequence[Sharding]
    result: Sharding


Partitioner = Callable[[Instruction, Sequence[Sharding], Sharding], Partitioned]
"""A function of the call on global arrays, and of how its operands and its result are cut around it."""

partitioners: dict[str, Partitioner] = {}
"""By target."""
Observer = Callable[[Instruction, Sharding], None]
"""A function of a call, and of how its operand is cut."""

observers: dict[str, Observer] = {}
"""By target: of calls that only look. Their result is their operand."""
local_calls: set[str] = set()
"""Targets that every device calls with its parts of the operands, as they are cut; they have no results but tokens."""
batched: set[str] = set()
"""Targets that do the same with each element of leading dimensions; the call says how many those are."""
