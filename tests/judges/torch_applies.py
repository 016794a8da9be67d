"""Why tests of torch's suites do not apply to the device: rules over their names and verdicts, in order."""

from __future__ import annotations

import re
from typing import Any

_NAMES: list[tuple[str, str]] = []
_MESSAGES: list[tuple[str, str]] = []


def inapplicable(name: str, verdict: dict[str, Any]) -> str:
    """The reason, or nothing where the test counts."""
    if verdict["verdict"] == "unused":
        return "nothing of it runs on the device"
    if verdict["verdict"] == "absent":
        return "made for another device's name"
    if verdict["verdict"] == "skip":
        return _why_skipped(verdict["message"])
    for pattern, reason in _NAMES:
        if re.search(pattern, name):
            return reason
    if verdict["verdict"] == "fail":
        for pattern, reason in _MESSAGES:
            if re.search(pattern, verdict["message"]):
                return reason
    return ""


def _why_skipped(message: str) -> str:
    found = re.search(r"Skipped: (.*?)'?\)?$", message)
    return f"skipped: {found[1][:80] if found else message[-80:]}"
