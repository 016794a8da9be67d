"""Is there code at an address?"""

from __future__ import annotations

from pathlib import Path

_MAPS = Path("/proc/self/maps")


def is_code(address: int) -> bool:
    """False where this process can execute nothing at `address`; True also where the system does not say."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return True
    for line in lines:
        place, permissions, *_ = line.split(maxsplit=2)
        start, end = (int(part, 16) for part in place.split("-"))
        if start <= address < end:
            return "x" in permissions
    return False
