"""Which graphs run faster on the threads of PyTorch's own operators than on the pool's.

After each operator that it shares, PyTorch's threads wait for the next one for milliseconds, and do not sleep. A graph
that runs meanwhile, as one of a training step, finds the processors taken; in a region of OpenMP it has those threads.
Where nothing else is shared, it gains nothing, and waits until they are awake. So runs are timed both ways, now and
again.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from xloom.cpu.runtime.checked_executable import CheckedExecutable
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.threads.openmp_team import openmp_team

_FIRST_RUNS = 8
"""Runs before the first trial."""
_WARM_NS = 10_000_000
"""Each way is tried that long before it is timed: so long do threads wait that the other way has left awake."""
_TIMED_RUNS = 8
_SHORT_NS = 250_000
"""Programs that take less gain too little for what it costs that threads meet once more."""
_GAIN = 0.97
"""Of the time on the pool's threads, what the others must come below."""
_REST_NS = 2_000_000_000
"""Between trials: what else the process does changes."""

Run = Callable[[Any, Any], None]


def on_faster_threads(executable: Executable | CheckedExecutable) -> Run:
    """What runs a program at addresses, as its `call_at` does."""
    team = openmp_team()
    if team is None or not isinstance(executable, Executable) or executable.calls_outside:
        return executable.call_at
    main = team.main(executable.main_address, torch.get_num_threads)
    return _Trials(executable.call_at, partial(executable.call_at, main=main))


class _Trials:
    """Runs a program one way or the other."""

    def __init__(self, *ways: Run):
        self._ways = ways
        self._chosen, self._left = ways[0], _FIRST_RUNS
        self._own = 0.0
        self._begin(0)

    def __call__(self, arguments: Any, results: Any) -> None:
        if self._left:
            self._left -= 1
            self._chosen(arguments, results)
        else:
            self._try(arguments, results)

    def _begin(self, way: int) -> None:
        self._way = way
        self._since: int | None = None
        self._times: list[int] = []

    def _try(self, arguments: Any, results: Any) -> None:
        before = time.perf_counter_ns()
        self._ways[self._way](arguments, results)
        since, times = self._since, self._times  # other threads may end the trial meanwhile
        if since is None:
            since = self._since = before
        if before - since < _WARM_NS:
            return
        times.append(time.perf_counter_ns() - before)
        if len(times) < _TIMED_RUNS:
            return
        median = statistics.median(times)
        if self._way == 0 and median >= _SHORT_NS:
            self._own = median
            self._begin(1)
        else:
            is_faster = self._way == 1 and median < _GAIN * self._own
            self._chosen = self._ways[int(is_faster)]
            self._left = max(_FIRST_RUNS, int(_REST_NS / max(median, 1)))
            self._begin(0)
