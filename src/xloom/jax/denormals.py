"""What programs of JAX make of denormal floats: `XLOOM_DENORMALS`, or what the platform does by itself."""

from __future__ import annotations

from xloom.environment import DENORMALS
from xloom.errors import XloomError

_WORDS = {"keep": False, "flush": True}


def flushes_denormals(by_itself: bool) -> bool:
    """Whether programs take them for 0. Raises XloomError where the environment says neither."""
    text = DENORMALS.text
    if text and text not in _WORDS:
        raise XloomError(f"{DENORMALS} is {text!r}", hint=f"{' or '.join(_WORDS)}")
    return _WORDS[text] if text else by_itself
