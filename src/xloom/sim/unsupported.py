"""What a device has not of a program: all of it at once, with where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xloom.errors import CustomCallError, UnregisteredCallError, UnsupportedError, XloomError, near
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import place

GLUE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "custom-call"})
"""Opcodes that no device is asked for."""
_PLACES = 4
"""Of one operator, that a message names."""


def check_taken(
    module: Module,
    platform: str,
    takes: Callable[[Instruction], bool],
    opcodes: Iterable[str] = (),
    calls: Sequence[CustomCallError] = (),
) -> None:
    """Raises UnsupportedError that names each instruction which the platform does not take, and each of `calls`.

    `calls` alone are an UnregisteredCallError. `opcodes` are those that it has, for the hint.
    """
    refused = [i for i in module.instructions if i.opcode not in GLUE and not takes(i)]
    if len(refused) + len(calls) == 1:
        raise (calls or [_alone(refused[0], platform, opcodes)])[0]
    if not refused and not calls:
        return
    lines: dict[str, list[str]] = {}
    for instruction in refused:
        shape = instruction.shape.to_text(layout=False)
        lines.setdefault(f"{instruction.opcode} that gives {shape}", []).append(place(instruction))
    for error in calls:
        lines.setdefault(error.message, []).append(error.where)
    kind: type[XloomError] = UnsupportedError if refused else UnregisteredCallError
    raise kind(
        f"the device {platform} lacks what {len(refused) + len(calls)} instructions of {module.name} need:"
        + "".join(f"\n  {what}, at {_some(places)}" for what, places in lines.items()),
        hint=_hint([i.opcode for i in refused], opcodes) if refused else calls[0].hint,
    )


def _alone(instruction: Instruction, platform: str, opcodes: Iterable[str]) -> UnsupportedError:
    return UnsupportedError(
        f"the device {platform} has no {instruction.opcode} that gives {instruction.shape}",
        where=place(instruction),
        hint=_hint([instruction.opcode], opcodes),
    )


def _some(places: Sequence[str]) -> str:
    rest = len(places) - _PLACES
    return "; ".join(places[:_PLACES]) + (f"; and {rest} more" if rest > 0 else "")


def _hint(lacking: Sequence[str], opcodes: Iterable[str]) -> str:
    has = sorted(opcodes)
    nearest = near(lacking[0], has) if len(lacking) == 1 else ""
    return nearest or (f"it has: {', '.join(has)}" if has else "its backend's `takes` says what it has")
