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

    @property
    def phase(self) -> str:
        """A file that says which side is at work."""
        return f"{self.file}.{self.numbers[0]}.phase"
