"""Seconds as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """With a unit, and three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
