"""How many devices a client has."""

from __future__ import annotations

import os
from typing import Any

from xloom.pjrt.error import invalid

VARIABLE = "XLOOM_NUM_DEVICES"


def device_count(options: dict[str, Any]) -> int:
    """What the client was asked for, or the environment says."""
    text = str(options.get("num_devices", os.environ.get(VARIABLE, "1")))
    if not text.isdigit() or int(text) < 1:
        raise invalid(f"{VARIABLE} must be a positive number, not {text!r}")
    return int(text)
