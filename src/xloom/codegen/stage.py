"""A stage of a backend: what it takes and gives, and what `xloom opt --emit` prints after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A step from a program's form to the next one."""

    name: str
    takes: str
    gives: str
    """The types of both."""
    function: str
    """Where it is."""
    prints: tuple[str, ...]
    """What `--emit` calls the texts of what it gives: each has `<name>_text`, - as _, in the backend's `printers`."""
    meaning: str
