"""Steps: `sync` ends a program, and `step` is a region that does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xloom.torch.lazy.runtime import device_client, execution
from xloom.torch.metrics import METRICS


def sync(wait: bool = False) -> None:
    """Starts what was recorded, as one program; waits for it if asked to."""
    METRICS.steps += 1
    execution.flush()
    if wait:
        device_client.wait()


@contextmanager
def step() -> Iterator[None]:
    """What is recorded inside is one program."""
    execution.flush()
    try:
        yield
    finally:
        execution.flush()
