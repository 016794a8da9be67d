"""Does a kernel take what a pattern matched?"""

from __future__ import annotations

from xloom.calls.match_description import MatchDescription
from xloom.calls.registry import Registration
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction


def refusal(registration: Registration, match: MatchDescription) -> str:
    """Why the kernel does not take such a call, or an empty string. Raises CustomCallError when its `when` fails."""
    if registration.when is None:
        return ""
    what = f"{registration.name!r} on {registration.platform}"
    try:
        taken = registration.when(match)
    except Exception as error:
        message = f"the condition of {what} failed: {type(error).__name__}: {error}"
        raise CustomCallError(message, where=registration.source) from error
    return "" if taken else f"the kernel {what} does not take it: {match}"


def check_taken(registration: Registration, call: Instruction, where: str) -> None:
    """Raises CustomCallError when `call` says what was matched and the kernel does not take that."""
    match = MatchDescription.of(call) if registration.when is not None else None
    if match is not None and (reason := refusal(registration, match)):
        hint = "register the kernel before the pass `outline` runs: it leaves alone what is not taken"
        raise CustomCallError(reason, where=where, hint=hint)
