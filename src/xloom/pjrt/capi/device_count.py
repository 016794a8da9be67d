"""How many devices a client has."""

from __future__ import annotations

from typing import Any

from xloom.environment import NUM_DEVICES
from xloom.pjrt.error import invalid


def device_count(options: dict[str, Any]) -> int:
    """What the client was asked for, or the environment says."""
    text = str(options.get("num_devices", NUM_DEVICES.text or NUM_DEVICES.default))
    if not text.isdigit() or int(text) < 1:
        raise invalid(
            f"{NUM_DEVICES} must be a positive number, not {text!r}",
            "set it to as many devices as the process is to have",
        )
    return int(text)
