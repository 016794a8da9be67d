"""Passes that a user wants over the programs of a block: outlining, and whatever else there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xloom.torch.lazy.recording.passes import pop, push
from xloom.torch.lazy.runtime.execution import flush


@contextmanager
def passes(pipeline: str) -> Iterator[None]:
    """Runs a pipeline, such as `outline{pattern=gelu,target=my_gelu}`, on each program compiled inside.

    Programs that are known without it are compiled again.
    """
    flush()
    push(pipeline)
    try:
        yield
        flush()
    finally:
        pop()
