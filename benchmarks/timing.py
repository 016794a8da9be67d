"""Times of functions, alternated."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[], object]

_BLOCK_SECONDS = 0.005  # calls are timed in blocks of about this length: many short ones bear noise better than few
_BLOCK_CALLS = 20_000
_PAUSE_SECONDS = 0.002
_SPINNING_SECONDS = 0.5
"""At most: threads of ONNX Runtime spin for 0.06 after a call, those of GNU's OpenMP for 0.01."""


@dataclass(frozen=True)
class Block:
    """Seconds a call: by the clock, and of the processor over all threads of the process."""

    wall: float
    cpu: float


def ratios(first: list[Block], second: list[Block]) -> list[float]:
    """First over second, by the clock, a pair of neighbours each: noise that lasts hits both."""
    return [a.wall / b.wall for a, b in zip(first, second, strict=True)]


def cpu_ratios(first: list[Block], second: list[Block]) -> list[float]:
    """The same of processor time."""
    return [a.cpu / b.cpu for a, b in zip(first, second, strict=True)]


def median_wall(blocks: list[Block]) -> float:
    """By the clock."""
    return statistics.median(b.wall for b in blocks)


def median_cpu(blocks: list[Block]) -> float:
    """Over all threads."""
    return statistics.median(b.cpu for b in blocks)


def alternate(*runs: Run, repeats: int) -> list[list[Block]]:
    """`repeats` blocks of each, side by side; who begins changes every time."""
    sides = [(run, calls_a_block(run), []) for run in runs]
    enabled = gc.isenabled()
    gc.disable()
    try:
        for k in range(repeats):
            gc.collect()
            for run, calls, blocks in sides if k % 2 == 0 else reversed(sides):
                blocks.append(block(run, calls))
    finally:
        if enabled:
            gc.enable()
    return [blocks for _, _, blocks in sides]


def calls_a_block(run: Run) -> int:
    """How many calls make a block."""
    run()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        seconds = time.perf_counter() - start
        if seconds > _BLOCK_SECONDS / 4 or calls >= _BLOCK_CALLS:
            return max(1, min(_BLOCK_CALLS, round(calls * _BLOCK_SECONDS / seconds)))
        calls *= 4


def block(run: Run, calls: int) -> Block:
    """The time of so many calls, after one that is not counted, once no thread of the others spins."""
    _stand_still()
    run()  # caches hold what the others left
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Block(wall / calls, cpu / calls)


def _stand_still() -> None:
    end = time.perf_counter() + _SPINNING_SECONDS
    spins = True
    while spins and time.perf_counter() < end:
        cpu = time.process_time()
        time.sleep(_PAUSE_SECONDS)
        spins = time.process_time() - cpu > _PAUSE_SECONDS / 4
