"""How long processes wait for each other."""

from __future__ import annotations

import os

from xloom.errors import DistributedError

VARIABLE = "XLOOM_DISTRIBUTED_TIMEOUT"
_SECONDS = "120"


def seconds() -> float:
    """What the environment says, or two minutes."""
    text = os.environ.get(VARIABLE, _SECONDS)
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise DistributedError(f"{VARIABLE} is a number of seconds, not {text!r}")
    return found
