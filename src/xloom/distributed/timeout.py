"""How long processes wait for each other."""

from __future__ import annotations

from xloom.environment import DISTRIBUTED_TIMEOUT
from xloom.errors import DistributedError


def seconds() -> float:
    """What the environment says, or two minutes."""
    text = DISTRIBUTED_TIMEOUT.text or DISTRIBUTED_TIMEOUT.default
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise DistributedError(
            f"{DISTRIBUTED_TIMEOUT} is a number of seconds, not {text!r}", hint="a positive one, such as 120"
        )
    return found
