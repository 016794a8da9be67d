"""What this machine can do with its memory and its arithmetic at best."""

from __future__ import annotations

import time
from dataclasses import dataclass

from xloom.roofline.yardsticks import Yardstick, arithmetic, memory


@dataclass(frozen=True)
class Limits:
    """The roof of a roofline."""

    bandwidth: float
    """Bytes a second, of a triad of arrays that no cache holds."""
    peak: float
    """f32 operations a second, of multiply-adds in registers; two each."""


def measure(seconds: float = 0.5) -> Limits:
    """Takes so long for each. The best of several runs: what an idle machine can do."""
    return Limits(_best(memory(), seconds), _best(arithmetic(), seconds))


def _best(yardstick: Yardstick, seconds: float) -> float:
    yardstick.run()
    shortest, end = float("inf"), time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        yardstick.run()
        shortest = min(shortest, time.perf_counter() - start)
    return yardstick.amount / shortest
