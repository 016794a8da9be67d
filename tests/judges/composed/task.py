"""What a child is told to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """Programs for one child, and the file that gets a line for each."""

    seed: int
    types: str
    numbers: tuple[int, ...]
    file: str
