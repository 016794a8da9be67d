"""What ran when: compiles, transfers, executions and kernels, as Chrome's and Perfetto's trace viewers show it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from xloom import environment, process_traces
from xloom.errors import XloomError
from xloom.process_identity import identity


class Trace:
    """Spans of time, by thread."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._threads: dict[int, str] = {}

    def add(self, name: str, category: str, start: int, end: int, thread: int | None = None, **details: Any) -> None:
        """A span of a thread, or else of the caller's, in nanoseconds of `time.monotonic_ns`."""
        if thread is None:
            thread = threading.get_native_id()
            self._threads.setdefault(thread, threading.current_thread().name)
        self._threads.setdefault(thread, f"thread {thread}")
        event = {"name": name, "cat": category, "ph": "X", "ts": start / 1e3, "dur": (end - start) / 1e3}
        self._events.append({**event, "pid": os.getpid(), "tid": thread, "args": details})

    def name_thread(self, thread: int, name: str) -> None:
        """What a thread is called, or what is shown like one."""
        self._threads[thread] = name

    def spans(self, category: str = "") -> list[dict[str, Any]]:
        """What was added, as Chrome's trace events (times in microseconds), of one category or all."""
        return [event for event in self._events if category in ("", event["cat"])]

    def thread_names(self) -> dict[int, str]:
        """The names of the threads that spans were added by."""
        return dict(self._threads)

    def events(self) -> list[dict[str, Any]]:
        """The spans and the threads' names, as Chrome's trace events."""
        process = os.getpid()
        names: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in self._threads.items()
        ]
        return [*names, *self._events]


_active: Trace | None = None
_watching: list[Callable[[bool], object]] = []
_written: Counter[Path] = Counter()


def active() -> Trace | None:
    """The trace that is being taken."""
    return _active


def watch(function: Callable[[bool], object]) -> None:
    """Calls `function` with whether a trace is being taken: now, and whenever one begins or ends."""
    _watching.append(function)
    function(_active is not None)


def _set_active(taken: Trace | None) -> None:
    global _active
    _active = taken
    for function in _watching:
        function(taken is not None)


@contextmanager
def trace(path: str | os.PathLike[str] | None = None) -> Iterator[Trace]:
    """Takes a trace of what this process does meanwhile, and writes it to `path` if that is given.

    Programs tell of their kernels: those compiled meanwhile ever after, which makes them a little slower; those that
    were compiled before by code that is compiled for the trace, when they first run in it. With `XLOOM_TRACE=path` in
    the environment the whole process is traced.
    Processes that are several write one file together: the last to end joins their parts (`trace.process1.json`...),
    where it finds them all; `xloom trace` joins those of several machines.
    Raises XloomError at the start for a path that cannot be written to.
    """
    if path is not None:
        process_traces.check_writable(Path(path))
    before, taken = _active, Trace()
    _set_active(taken)
    try:
        yield taken
    finally:
        _set_active(before)
        if path is not None:
            file = Path(path).absolute()
            process_traces.write(taken.events(), identity(), file, _written[file])
            _written[file] += 1


def span(name: str, category: str, **details: Any) -> Context[None]:
    """The time until the end of the `with`, if a trace is being taken."""
    return nullcontext() if _active is None else _span(_active, name, category, details)


@contextmanager
def _span(taken: Trace, name: str, category: str, details: dict[str, Any]) -> Iterator[None]:
    start = time.monotonic_ns()
    try:
        yield
    finally:
        taken.add(name, category, start, time.monotonic_ns(), **details)


if environment.TRACE.text:
    _whole = trace(environment.TRACE.text)
    try:
        _whole.__enter__()
    except XloomError as error:
        sys.exit(f"error: XLOOM_TRACE: {error}")  # JAX goes on without a plugin that raises anything else
    atexit.register(_whole.__exit__, None, None, None)
