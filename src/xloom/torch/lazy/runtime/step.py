"""Steps: `sync` ends a program, and `step` is a region that does. Each is a span of the trace that is being taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from xloom.torch.lazy.runtime import device_client, execution
from xloom.torch.metrics import METRICS
from xloom.trace import Trace, active, span

_last: tuple[Trace, int] | None = None
"""When the last step of a trace ended."""


def sync(wait: bool = False) -> None:
    """Starts what was recorded, as one program; waits for it if asked to."""
    METRICS.steps += 1
    execution.flush()
    if wait:
        device_client.wait()
    if active() is not None:
        _tell()


def _tell() -> None:
    """A span of all since the last step."""
    global _last
    trace, now = active(), time.monotonic_ns()
    if trace is not None:
        if _last is not None and _last[0] is trace:
            trace.add(f"step {METRICS.steps}", "step", _last[1], now)
        _last = trace, now


@contextmanager
def step() -> Iterator[None]:
    """What is recorded inside is one program."""
    execution.flush()
    with span("step", "step"):
        try:
            with execution.one_program():
                yield
        finally:
            execution.flush()
