"""Rows of numbers that native code writes down in any thread, and Python takes."""

from __future__ import annotations

import threading

import numpy as np

CAPACITY = 1 << 16
"""Rows that are kept until they are taken; of more, the last ones."""


class EventRing:
    """Native code adds 1 to the first word, which gives the number of its row; writes the row; and last, that number
    plus one at the row's begin. So a row that is not finished is not taken for one."""

    def __init__(self, columns: int):
        self._words = np.zeros(1 + CAPACITY * (1 + columns), np.int64)
        self._rows = self._words[1:].reshape(CAPACITY, 1 + columns)
        self._taken = 0
        self._lock = threading.Lock()
        self.address = self._words.ctypes.data

    def take(self) -> list[list[int]]:
        """The rows that were written since the last time."""
        with self._lock:
            end = int(self._words[0])
            numbers = np.arange(max(self._taken, end - CAPACITY), end)
            rows = self._rows[numbers % CAPACITY]
            unfinished = np.flatnonzero(rows[:, 0] != numbers + 1)
            count = int(unfinished[0]) if unfinished.size else len(numbers)
            self._taken = int(numbers[0]) + count if len(numbers) else end
            return rows[:count, 1:].tolist()
