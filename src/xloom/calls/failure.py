"""The error of a native call that reports a failure."""

from __future__ import annotations

from xloom.calls.registry import ABIS, place
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction


def failure(instruction: Instruction, message: str) -> CustomCallError:
    """The error of a native call that reported `message`."""
    target = instruction["custom_call_target"]
    original = ABIS["original"]
    hint = f"it has a status, write api_version={ABIS['status-returning']}: {original} has none"
    return CustomCallError(
        f"custom call {target!r} failed: {message or 'it gives no message'}",
        where=place(instruction),
        hint=hint if instruction["api_version"] == original else "",
    )
