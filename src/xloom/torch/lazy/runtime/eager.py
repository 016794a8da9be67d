"""Eager mode: each operator is a program of its own that is run, and waited for, at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xloom.torch.lazy.recording.trace import TRACE
from xloom.torch.lazy.runtime import device_client, execution


@contextmanager
def eager() -> Iterator[None]:
    """Runs operators one by one inside, for debugging: an error comes from the line that makes it."""
    execution.flush()
    before = TRACE.after_operator
    TRACE.after_operator = _run
    try:
        yield
    finally:
        TRACE.after_operator = before


def _run() -> None:
    execution.flush()
    device_client.wait()
