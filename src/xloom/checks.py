"""Which of its own stages the compiler checks as it goes: $XLOOM_CHECK."""

from __future__ import annotations

import os

from xloom.errors import XloomError

CHECKS = {
    "buffers": "each step reads the bytes of the value that it is to read",
    "loops": "loop nests have operands of the right types, and only load and store what there is",
    "passes": "each pass gives a module of the same values",
    "kernels": "code that is shared or kept is what would be made anew",
}
"""What can be checked."""
SWITCH = "XLOOM_CHECK"


def is_checked(what: str) -> bool:
    """True when $XLOOM_CHECK, names with commas between or `all`, asks for it. Raises XloomError for other names."""
    text = os.environ.get(SWITCH)
    if not text:
        return False
    names = {name.strip() for name in text.split(",") if name.strip()}
    unknown = names - CHECKS.keys() - {"all"}
    if unknown:
        known = ", ".join(CHECKS)
        raise XloomError(f"{SWITCH} is {text!r}", hint=f"set it to all, or to some of {known}, or unset it")
    return what in names or "all" in names
