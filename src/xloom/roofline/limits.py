"""What this machine can do with its memory and its arithmetic at best."""

from __future__ import annotations

import time
from dataclasses import dataclass

from xloom.roofline.yardsticks import Yardstick, arithmetic, memory, reading


@dataclass(frozen=True)
class Limits:
    """The roof of a roofline."""

    bandwidth: float
    """Bytes a second, of a triad of arrays that no cache holds."""
    peak: float
    """f32 operations a second, of multiply-adds in registers; two each."""
    reading: float = 0.0
    """Bytes a second of an array that is only read, which can be more: a triad's stores load what they write to."""

    @property
    def memory(self) -> float:
        """The most bytes a second that memory gives whatever reads and writes."""
        return max(self.bandwidth, self.reading)


class Gauge:
    """Measures the limits when asked, and keeps the best: what the machine can do where nothing else runs."""

    def __init__(self) -> None:
        self._marks: list[Yardstick] = [memory(), arithmetic(), reading()]
        self._shortest = [float("inf")] * len(self._marks)
        for mark in self._marks:
            mark.run()  # the first time it is not ready

    def look(self) -> None:
        """Measures each once."""
        for k, mark in enumerate(self._marks):
            start = time.perf_counter()
            mark.run()
            self._shortest[k] = min(self._shortest[k], time.perf_counter() - start)

    @property
    def limits(self) -> Limits:
        """The best so far."""
        return Limits(*[mark.amount / best for mark, best in zip(self._marks, self._shortest, strict=True)])


def measure(seconds: float = 1.0) -> Limits:
    """Measures for so long. The best of several runs: what an idle machine can do."""
    gauge, end = Gauge(), time.perf_counter() + seconds
    gauge.look()
    while time.perf_counter() < end:
        gauge.look()
    return gauge.limits
