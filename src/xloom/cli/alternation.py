"""Times of programs that run by turns, so that what else the machine does concerns all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

_SHORTEST_BLOCK = 0.005
_MOST_COPIES = 64
"""Runs of a block of a program that takes the memory of its arguments: each needs copies."""


class Side(Protocol):
    """A program that runs as often as one likes."""

    def fresh_arguments(self) -> Any:
        """The arguments for one run, made outside its time."""
        ...

    def __call__(self, arguments: Any) -> Any:
        """Runs it."""
        ...


def alternated(sides: Sequence[Side], repeats: int, *, copies: bool) -> list[list[float]]:
    """Seconds a run, a row for each; blocks of about equal length in turn. `copies`: fresh arguments are such."""
    counts = []
    for side in sides:
        side(side.fresh_arguments())
        given, start = side.fresh_arguments(), time.perf_counter()
        side(given)
        count = max(1, round(_SHORTEST_BLOCK / max(1e-7, time.perf_counter() - start)))
        counts.append(min(count, _MOST_COPIES) if copies else count)
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, count, row in zip(sides, counts, times, strict=True):
            given = [side.fresh_arguments() for _ in range(count)]
            start = time.perf_counter()
            for arguments in given:
                side(arguments)
            row.append((time.perf_counter() - start) / count)
    return times
