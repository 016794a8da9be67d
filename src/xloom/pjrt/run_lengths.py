"""How long a program takes whose cost its text does not say."""

from __future__ import annotations

LONG = 20e-3
"""Seconds of a run after which the caller would rather have gone on."""
_SHORT = 3e-3
"""Seconds beside which it matters that another thread has to begin and end with it."""
_FEW = 2
"""Short runs in a row after which the next ones are expected to be short."""
_MORE = 8
"""How many times as many are asked for after each time that this was wrong."""


class RunLengths:
    """Learns from runs whether the next ones will be short."""

    def __init__(self) -> None:
        self.are_short = False
        self._in_a_row, self._asked = 0, _FEW

    def saw(self, seconds: float) -> None:
        """Notes the time of a run."""
        if seconds > (LONG if self.are_short else _SHORT):
            self._asked *= _MORE if self.are_short else 1
            self.are_short, self._in_a_row = False, 0
            return
        self._in_a_row += 1
        self.are_short = self.are_short or self._in_a_row >= self._asked
