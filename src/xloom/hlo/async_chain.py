"""Asynchronous operations: chains of an async-start, any number of async-updates, and an async-done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xloom.hlo.computation import Computation
    from xloom.hlo.instruction import Instruction


def async_computation(instruction: Instruction) -> Computation | None:
    """The computation that an async-start, -update or -done is about, found along the chain."""
    while instruction.opcode != "async-start":
        if instruction.opcode not in ("async-update", "async-done") or not instruction._operands:
            return None
        instruction = instruction._operands[0]
    return instruction.attrs.get("calls")
