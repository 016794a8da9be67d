"""Passes over recorded programs, before they are compiled: outlining, and whatever else a user wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xloom.hlo.module import Module
from xloom.passes import run_passes
from xloom.torch.lazy.recording.trace import TRACE

_pipelines: list[str] = []


@contextmanager
def passes(pipeline: str) -> Iterator[None]:
    """Runs a pipeline, such as `outline{pattern=gelu,target=my_gelu}`, on each program compiled inside.

    Programs that are known without it are compiled again.
    """
    from xloom.torch.lazy.runtime.execution import flush

    flush()
    _pipelines.append(pipeline)
    TRACE.enter(current())
    try:
        yield
        flush()
    finally:
        _pipelines.pop()
        TRACE.enter(current())


def current() -> str:
    """The pipelines in effect, one after another."""
    return ",".join(_pipelines)


def apply(module: Module) -> None:
    """Runs them on a module."""
    if _pipelines:
        run_passes(module, current())
