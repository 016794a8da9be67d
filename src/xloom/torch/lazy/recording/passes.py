"""Passes over recorded programs, before they are compiled: the pipelines in effect."""

from __future__ import annotations

from xloom.hlo.module import Module
from xloom.passes import run_passes
from xloom.torch.lazy.recording.trace import TRACE

_pipelines: list[str] = []


def push(pipeline: str) -> None:
    """Runs one more pipeline on each program that is compiled from now on."""
    _pipelines.append(pipeline)
    TRACE.enter(current())


def pop() -> None:
    """Ends the last one."""
    _pipelines.pop()
    TRACE.enter(current())


def current() -> str:
    """The pipelines in effect, one after another."""
    return ",".join(_pipelines)


def apply(module: Module) -> None:
    """Runs them on a module, in which equal operators are one."""
    if _pipelines:
        run_passes(module, f"cse,dce,{current()}")
